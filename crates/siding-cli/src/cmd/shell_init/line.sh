# Has siding keep this shell and all that it will start: `siding shell-init`. For bash and zsh.
__siding_adopt() {
  unset -f __siding_adopt
  # Options are restored at the end (bash 4.4 and later).
  if [ -n "${ZSH_VERSION-}" ]; then
    setopt local_options no_err_exit no_err_return no_xtrace no_ksh_arrays no_monitor unset
  elif [ -n "${BASH_VERSION-}" ]; then
    # In zsh this would print all variables.
    local - 2>/dev/null || return 0
    set +eumx
  else
    return 0
  fi
  local IFS=$' \t\n' limits= line= session= had=
  # Whoever carries a task's mark is kept already; a variable could say anything. In a sandbox $$ may
  # be another's number in /proc.
  if [ -n "${ZSH_VERSION-}" ]; then
    limits=$(</proc/self/limits)
  else
    builtin read -r -d '' limits </proc/self/limits
  fi
  # No mark, or that of the agent's program: 19 digits, of which the first is 2 to 4. The limit is the
  # last line.
  limits=${limits##*Max realtime timeout}
  if [[ $limits != *unlimited*unlimited* &&
    $limits != *' '[234][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]' '*us* ]]; then
    KEPT
    return 0
  fi
  if [[ -z ${SIDING_ADOPT_FAILED-} && -x PROGRAM ]]; then
    if [ -n "${BASH_VERSION-}" ] && ! shopt -q lastpipe; then
      had=not
      shopt -s lastpipe
    fi
    # Whatever siding does, this waits no longer than a tenth of a second: until this shell is
    # marked. One that is late goes on without this shell. As the last of a pipeline this shell reads without a subshell, and what
    # is sent away by another one leaves $! as it is.
    { PROGRAM adopt "$$" --at-onceSESSION </dev/null 2>/dev/null & } |
      builtin read -t "${SIDING_ADOPT_WAIT:-0.1}" -r line session || session=
    if [ -n "$had" ]; then
      shopt -u lastpipe
    fi
    if [[ -n $session ]]; then
      export SIDING_SESSION=$session
    else
      # The shells below need not wait for it again.
      export SIDING_ADOPT_FAILED=1
    fi
  fi
  return 0
}
case $- in
  *i*) unset -f __siding_adopt ;;
  *) { __siding_adopt "$_" || true; } 2>/dev/null ;;
esac
