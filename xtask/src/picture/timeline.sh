# Runs tasks for the timeline in the documentation, and prints the picture of them. The tasks sleep
# instead of working, so that the picture is the same on every machine.
exec 3>&1 >/dev/null 2>&1
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
cat > "$dir/ci.toml" <<'END'
name = "ci"
[[step]]
id = "lint"
run = ": cargo clippy; sleep 5"
[[step]]
id = "test"
needs = ["lint"]
run = ": cargo test; sleep 7; exit 1"
[[step]]
id = "docs"
needs = ["lint"]
run = ": cargo doc; sleep 4"
END
siding session open chat-7 --owner-pid $$
siding run --background --name web -- ': npm run dev; sleep 90'
siding run --session chat-7 --budget 3s -- ': cargo build; sleep 12'
siding run --session chat-7 --background --stdin pipe -- 'printf "Overwrite dist? [y/N] "; read answer'
siding workflow run --background "$dir/ci.toml"
siding run --session chat-7 -- ': cargo fmt --check; sleep 1; exit 1'
siding run --session chat-7 --background -- "siding run --budget none -- ': make; sleep 6'; sleep 2"
sleep 8
siding run --background --timeout 4s -- ': ./migrate; sleep 60'
siding run --session chat-7 --background -- 'sleep 20 & echo the server is in the background'
sleep 6
siding stop web
siding timeline --svg - >&3
siding session close chat-7
siding stop --all
