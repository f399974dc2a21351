#compdef siding
# Completion of siding in zsh.
_siding() {
    local -i dashes=${words[(i)--]}
    # The words after `--` are a command of their own.
    if [[ $words[2] == (run|monitor) ]] && (( dashes < CURRENT )); then
        words=("${(@)words[dashes + 1, -1]}")
        (( CURRENT -= dashes ))
        _normal
        return
    fi
    local -a candidates
    candidates=("${(@f)$("${(Q)words[1]}" __complete zsh $((CURRENT - 1)) 0 "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n $candidates[1] ]]; then
        _describe -V 'siding' candidates
    else
        _default
    fi
}
if [[ $funcstack[1] == _siding ]]; then
    _siding "$@"
else
    compdef _siding siding
fi
