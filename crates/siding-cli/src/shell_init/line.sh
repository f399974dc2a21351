# Lets siding adopt this shell and everything it starts: `siding shell-init`. For bash and zsh.
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
  # A process with a task's mark is adopted already; a variable could have any value. In a sandbox $$
  # may be the id of another process in /proc.
  if [ -n "${ZSH_VERSION-}" ]; then
    limits=$(</proc/self/limits)
  else
    builtin read -r -d '' limits </proc/self/limits
  fi
  # No mark, or the mark of the agent's program: 19 digits, the first one is 2 to 4. The limit is in
  # the last line.
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
    # Waits until this shell is marked, for a tenth of a second at most, whatever siding does. A slow
    # siding continues alone. With lastpipe the read runs in this shell, and a command that another
    # process starts in the background does not change $!.
    { PROGRAM adopt "$$" --at-onceSESSION </dev/null 2>/dev/null & } |
      builtin read -t "${SIDING_ADOPT_WAIT:-0.1}" -r line session || session=
    if [ -n "$had" ]; then
      shopt -u lastpipe
    fi
    if [[ -n $session ]]; then
      export SIDING_SESSION=$session
    else
      # Child shells need not wait for siding again.
      export SIDING_ADOPT_FAILED=1
    fi
  fi
  return 0
}
case $- in
  *i*) unset -f __siding_adopt ;;
  *) { __siding_adopt "$_" || true; } 2>/dev/null ;;
esac
