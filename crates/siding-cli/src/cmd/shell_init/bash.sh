# Has siding keep this shell and all that it will start: `siding shell-init bash`.
__siding_adopt() {
  unset -f __siding_adopt
  # Options are restored at the end (bash 4.4 and later).
  local - 2>/dev/null || return 0
  set +eux
  local IFS=$' \t\n' line session=
  # Whoever carries a mark is kept already; a variable could say anything.
  while builtin read -r line; do
    case $line in
      'Max realtime timeout'*unlimited*unlimited*) break ;;
      'Max realtime timeout'*) return 0 ;;
    esac
  done </proc/$$/limits
  if [[ -z ${SIDING_ADOPT_FAILED-} && -x PROGRAM ]]; then
    # Whatever siding does, this waits no longer than a tenth of a second. One that is late goes on
    # without this shell. The subshell keeps $! as it is.
    session=$(
      builtin read -t "${SIDING_ADOPT_WAIT:-0.1}" -r line session \
        < <(exec PROGRAM adopt "$$"SESSION </dev/null 2>/dev/null) &&
        builtin printf %s "$session"
    )
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
