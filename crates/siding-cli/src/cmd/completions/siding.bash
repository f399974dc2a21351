# Completion of siding in bash.
_siding() {
    local at words=("${COMP_WORDS[@]}")
    # The words after `--` are a command of their own; bash-completion completes it.
    if [[ ${words[1]} == @(run|monitor) ]] && declare -F _command_offset >/dev/null; then
        for ((at = 2; at < COMP_CWORD; at++)); do
            if [[ ${words[at]} == -- ]]; then
                _command_offset $((at + 1))
                return
            fi
        done
    fi
    words[COMP_CWORD]="$2"
    mapfile -t COMPREPLY < <("$1" __complete bash "$COMP_CWORD" "$COMP_TYPE" "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]]; then
        compopt -o nospace
    fi
}
# Before 4.4, bash cannot keep the order of the candidates.
complete -o bashdefault -o default -o nosort -F _siding siding 2>/dev/null ||
    complete -o bashdefault -o default -F _siding siding
