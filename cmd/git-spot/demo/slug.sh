# slug TEXT prints TEXT as a word for an address.
slug() {
	printf '%s\n' "$1"
}
