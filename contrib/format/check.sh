#!/bin/sh
# Checks one ledger by section 14 of docs/format.md. It needs git, sh, jq and a program for SHA-256.
#
#	check.sh ID     in the repository, or with GIT_DIR set
#
# Prints one line for each thing that is wrong. Exit status 0: the ledger is sound; 1: it is not; 2: it
# could not be checked. Documents are not held against their schemas: that takes more than jq.
set -eu
export GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
id=${1:?usage: check.sh ID}
head=$(git rev-parse --verify --quiet "refs/spot/runs/$id") || { echo "no run $id" >&2; exit 2; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
wrong=0
bad() {
	echo "$id: $*"
	wrong=1
}

sha256() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d' ' -f1
}

# Rules 1 and 2: every event, the newest first. A commit and JSON hold no NUL.
oid=$head
while [ -n "$oid" ]; do
	if ! git cat-file commit "$oid" >"$tmp/commit" 2>/dev/null || ! git cat-file blob "$oid:state.json" >"$tmp/state" 2>/dev/null; then
		bad "event $oid cannot be read"
		exit 1
	fi
	{
		printf '%s\0' "$oid"
		cat "$tmp/commit"
		printf '\0'
		cat "$tmp/state"
		printf '\0'
	} >>"$tmp/raw"
	oid=$(sed -n -e '/^$/q' -e 's/^parent //p' "$tmp/commit" | head -n 1)
done
if ! jq -R -s -L "$here" --arg id "$id" 'include "message";
def trailers_of: {
    "Spot-Run": .id, "Spot-State": .state, "Spot-Attempt": (.attempt | tostring), "Spot-Caller": .caller,
    "Spot-Profile": .profile.name, "Spot-Title": .title, "Spot-Candidate": .candidate,
    "Spot-Diff-Sha256": .diffSha256, "Spot-Code": .code, "Spot-Updated": .updatedAt
  } | with_entries(select((.value // "") != ""));
split("\u0000") as $raw
| [range(0; ($raw | length) - 1; 3) as $i
    | $raw[$i] as $oid
    | ($raw[$i + 1] | commit) as $c
    | ($raw[$i + 2] | fromjson) as $s
    | ($c.message | try (message | .trailers) catch "none: \(.)") as $t
    | {
        oid: $oid, state: $s.state, base: $s.base.commit, candidate: $s.candidate, approved: $s.approved,
        note: {"Spot-Run": $s.id, "Spot-State": $s.state, "Spot-Attempt": ($s.attempt | tostring), "Spot-Tree": $s.tree, "Spot-Diff-Sha256": $s.diffSha256},
        wrong: [
          ("it has \($c.parents | length) parents" | select($c.parents | length > 1)),
          ("schemaVersion is \($s.schemaVersion)" | select($s.schemaVersion != 1)),
          ("state.json is of run \($s.id)" | select($s.id != $id)),
          ("the first state is \($s.state)" | select(($c.parents | length) == 0 and $s.state != "prepared")),
          ("the trailers are not those of state.json" | select($t != ($s | trailers_of)))
        ]
      }]' "$tmp/raw" >"$tmp/events" 2>/dev/null; then
	bad "an event cannot be read"
	exit 1
fi
jq -r '.[] | "event " + .oid + ": " + .wrong[]' "$tmp/events" >"$tmp/wrong"
while read -r line; do bad "$line"; done <"$tmp/wrong"

# Rules 3 and 4: what the newest event names is there.
git cat-file blob "$head:state.json" >"$tmp/state"
eval "$(jq -r '@sh "base=\(.base.commit // "") candidate=\(.candidate // "") tree=\(.tree // "") approved=\(.approved // "")
	attempt=\(.attempt // 0) diff=\(.diffSha256 // "") state=\(.state // "")"' "$tmp/state")"
git cat-file -e "$base^{commit}" 2>/dev/null || bad "the base $base does not exist"
for commit in $candidate $approved; do
	[ "$commit" != "$base" ] || continue
	if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
		bad "commit $commit does not exist"
		continue
	fi
	[ "$(git rev-parse "$commit^{tree}")" = "$tree" ] || bad "the tree of $commit is not $tree"
	[ "$(git rev-parse "$commit^@")" = "$base" ] || bad "the base is not the only parent of $commit"
done
if [ -n "$candidate" ]; then
	at=$(git rev-parse --verify --quiet "refs/spot/candidates/$id") || at=nowhere
	[ "$at" = "$candidate" ] || [ "$at" = "$approved" ] || bad "refs/spot/candidates/$id is at $at"
	[ "$attempt" = 0 ] || git rev-parse --verify --quiet "refs/spot/attempts/$id/$attempt" >/dev/null ||
		bad "refs/spot/attempts/$id/$attempt does not exist"
fi
if [ -n "$approved" ]; then
	for pair in "Spot-Run $id" "Spot-Diff-Sha256 $diff"; do
		last=$(git -c log.showSignature=false log -1 --format="%(trailers:key=${pair% *},valueonly)" "$approved" | grep . | tail -n 1)
		[ "$last" = "${pair#* }" ] || bad "${pair% *} of the approved commit is not ${pair#* }"
	done
fi

# Rule 5: the hash, computed anew and as the documents have it.
if [ -n "$candidate" ]; then
	now=$(git --no-replace-objects diff-tree -r -z --full-index --no-renames --ignore-submodules=none "$base" "$candidate" | sha256)
	[ "$now" = "$diff" ] || bad "diffSha256 is $now, not $diff"
fi
# document FILE FILTER WHAT: if the attempt has FILE, the jq filter over it and $s, the state, holds.
document() {
	if git cat-file blob "$head:attempts/$attempt/$1" >"$tmp/document" 2>/dev/null; then
		jq -e --slurpfile states "$tmp/state" "\$states[0] as \$s | $2" "$tmp/document" >/dev/null 2>&1 || bad "$1 $3"
	fi
}
document verification.json '.base == $s.base.commit and .tree == $s.tree and .diffSha256 == $s.diffSha256' "is of another change"
document verification.json '$s.verification == null or .verdict == $s.verification.verdict' "has another verdict"
if [ -n "$approved" ]; then
	git cat-file -e "$head:attempts/$attempt/verification.json" 2>/dev/null || bad "it was approved without a verification"
	document verification.json '.verdict == "pass"' "did not pass"
	document review.json '.verdict == "approve" and .diffSha256 == $s.diffSha256' "is of another change"
fi

# Rule 6: a commit that a noted event names has one note, which says what an event of the run says that
# names it.
jq -r 'def noted: [.[1].state, .[0].state] | join(" ") as $step
    | ["verifying selfReviewing", "verifying reviewing", "verifying approved", "verifying blocked", "reviewing approved",
       "selfReviewing approved", "integrating integrated", "integrated reported", "done reported"] | index($step) != null;
  . as $events
  | [range(0; length - 1) as $i | $events[$i:$i + 2] | select(noted) | .[0] | (.candidate, .approved) as $c | select($c != null and $c != .base) | $c]
  | unique[]' "$tmp/events" >"$tmp/noted"
while read -r commit; do
	if ! git notes --ref=spot show "$commit" >"$tmp/note" 2>/dev/null; then
		bad "$commit has no note"
	elif ! jq -n -e -L "$here" --rawfile note "$tmp/note" --slurpfile events "$tmp/events" --arg commit "$commit" 'include "message";
		($note | message | .trailers) as $t
		| any($events[0][]; .oid == $t["Spot-Ledger"] and (.candidate == $commit or .approved == $commit)
			and all(.note | to_entries[]; .value == $t[.key]))' >/dev/null 2>&1; then
		bad "the note on $commit is not what an event of the run says"
	fi
done <"$tmp/noted"

exit $wrong
