# A worker that does the task: it reads the prompt and changes the file that may change.
cat >/dev/null
cat >src/slug.sh <<'EOF'
# slug TEXT prints TEXT as a word for an address: lower case, runs of anything else than letters and
# digits as one dash, none at the ends.
slug() {
	printf '%s\n' "$1" | tr '[:upper:]' '[:lower:]' | sed -e 's/[^a-z0-9]\{1,\}/-/g' -e 's/^-//' -e 's/-$//'
}
EOF
echo "slug now lowers the case and joins words with one dash."
