# Completion of siding in fish.
function __siding_complete
    set --local words (commandline --current-process --tokenize --cut-at-cursor)
    set --local word (commandline --current-token --cut-at-cursor)
    # The words after `--` are a command of their own.
    if contains -- "$words[2]" run monitor
        and set --local dashes (contains --index -- -- $words)
        set --local rest
        for index in (seq (math $dashes + 1) (count $words))
            set --append rest (string escape -- $words[$index])
        end
        complete --do-complete (string join ' ' -- $rest $word)
        return
    end
    $words[1] __complete fish (count $words) 0 $words "$word" 2>/dev/null
end
complete --command siding --no-files --keep-order --arguments '(__siding_complete)'
