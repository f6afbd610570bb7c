# The checks of the demo project. Run from the top folder: sh tests/check.sh
. ./src/slug.sh
status=0
check() {
	got=$(slug "$1")
	if [ "$got" = "$2" ]; then
		echo "ok: $1"
	else
		echo "not ok: $1: got '$got', want '$2'"
		status=1
	fi
}
check "Hello World" "hello-world"
check "  Twice  spaced  " "twice-spaced"
check "Ready? Set. Go!" "ready-set-go"
exit $status
