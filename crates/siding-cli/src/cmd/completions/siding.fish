# Completion of siding in fish.
function __siding_complete
    set --local words (commandline --current-process --tokenize --cut-at-cursor)
    set --local word (commandline --current-token --cut-at-cursor)
    $words[1] __complete fish (count $words) 0 $words "$word" 2>/dev/null
end
complete --command siding --no-files --keep-order --arguments '(__siding_complete)'
