# Has siding keep this shell and all that it will start: `siding shell-init zsh`.
if [[ ! -o interactive ]] {
  () {
    # Options are restored at the end.
    setopt local_options no_err_exit no_err_return no_xtrace no_ksh_arrays no_monitor unset
    local IFS=$' \t\n' limits= line= session=
    # Whoever carries a mark is kept already; a variable could say anything.
    limits=$(</proc/$$/limits)
    limits=${limits##*'Max realtime timeout'}
    [[ ${limits%%$'\n'*} == *unlimited*unlimited* ]] || return 0
    if [[ -z ${SIDING_ADOPT_FAILED-} && -x PROGRAM ]]; then
      # Whatever siding does, this waits no longer than a tenth of a second. One that is late goes
      # on without this shell. As the last of a pipeline this shell reads without a subshell, and
      # what is sent away by another one leaves $! as it is.
      { PROGRAM adopt "$$"SESSION </dev/null 2>/dev/null & } |
        builtin read -t ${SIDING_ADOPT_WAIT:-0.1} -r line session || session=
      if [[ -n $session ]]; then
        export SIDING_SESSION=$session
      else
        # The shells below need not wait for it again.
        export SIDING_ADOPT_FAILED=1
      fi
    fi
    return 0
  } "$_" 2>/dev/null || true
}
