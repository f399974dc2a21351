# Starts the tasks in the picture of `siding top`. Some sleep instead of working, so that the picture
# is the same on every machine.
export SLEEP=4
for run in 1 2 3; do siding run --budget none -- ': cargo test; sleep $SLEEP'; done
siding run --budget none -- ': npm ci; sleep 1'
siding run --budget none -- ': cargo fmt --check; sleep 1; exit 1'
siding notices ack
siding run --background --stdin pipe -- 'printf "Overwrite dist? [y/N] "; read answer'
siding run --background --name web -- ': npm run dev; sleep 600'
siding run --background -- ': make docs; while :; do echo page; sleep 0.1; done'
sleep 14
SLEEP=60 siding run --background -- ': cargo test; sleep $SLEEP'
siding run --budget none -- ': make all; sleep 1; exit 2'
