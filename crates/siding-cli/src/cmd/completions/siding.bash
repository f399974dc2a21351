# Completion of siding in bash.
_siding() {
    local words=("${COMP_WORDS[@]}")
    words[COMP_CWORD]="$2"
    mapfile -t COMPREPLY < <("$1" __complete bash "$COMP_CWORD" "$COMP_TYPE" "${words[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:] ]]; then
        compopt -o nospace
    fi
}
# Before 4.4, bash cannot keep the order of the candidates.
complete -o bashdefault -o default -o nosort -F _siding siding 2>/dev/null ||
    complete -o bashdefault -o default -F _siding siding
