#!/bin/sh
# Prints the runs of a repository as a JSON array, sorted by id: what "git spot list --json" says of
# them, made from commits alone by what docs/format.md says. It needs git, sh and jq.
#
#	list.sh     in the repository, or with GIT_DIR set
#
# A run that cannot be read is a row with "error": true.
set -eu
export GIT_NO_REPLACE_OBJECTS=1 LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)

row='include "message";
(commit | .message | message | .trailers) as $t
| if $t["Spot-Run"] != $id then error("the event of another run") else . end
| {
    id: $t["Spot-Run"], state: $t["Spot-State"], title: $t["Spot-Title"], caller: $t["Spot-Caller"],
    profile: $t["Spot-Profile"], attempt: ($t["Spot-Attempt"] | tonumber), updatedAt: $t["Spot-Updated"]
  }
+ if $t["Spot-Diff-Sha256"] then {diffSha256: $t["Spot-Diff-Sha256"]} else {} end'

refs=$(git for-each-ref --format='%(refname)' refs/spot/runs/)
for ref in $refs; do
	id=${ref#refs/spot/runs/}
	git cat-file commit "$ref" 2>/dev/null | jq -R -s -c -L "$here" --arg id "$id" "$row" 2>/dev/null ||
		jq -n -c --arg id "$id" '{id: $id, error: true}'
done | jq -s 'sort_by(.id)'
