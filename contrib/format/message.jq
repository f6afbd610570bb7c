# Reads the messages and notes of docs/format.md: title line, empty line, trailers.

def hexbyte: explode | map(if . >= 97 then . - 87 else . - 48 end) | .[0] * 16 + .[1];

# Bytes to code points. What is escaped in a ledger is always whole characters.
def utf8:
  if length == 0 then []
  elif .[0] < 128 then [.[0]] + (.[1:] | utf8)
  elif .[0] < 224 then [(.[0] - 192) * 64 + .[1] - 128] + (.[2:] | utf8)
  elif .[0] < 240 then [((.[0] - 224) * 64 + .[1] - 128) * 64 + .[2] - 128] + (.[3:] | utf8)
  else error("an escape that is no character of a line")
  end;

# The value of a trailer as it was before it was written.
def unescape:
  [scan("(?:\\\\x[0-9a-f]{2})+|\\\\\\\\|[^\\\\]+|\\\\")
    | if startswith("\\x") then ltrimstr("\\x") | split("\\x") | map(hexbyte) | utf8 | implode
      elif . == "\\\\" then "\\"
      elif . == "\\" then error("a lone backslash")
      else . end]
  | join("");

# A line of the last paragraph as {key, value}.
def trailer:
  (capture("^(?<key>[A-Za-z0-9-]+): (?<value>.+)$") // error("a line that is no trailer")) | .value |= unescape;

# A message as {title, trailers}.
def message:
  (if endswith("\n") then .[:-1] else error("the last line does not end") end)
  | split("\n\n")
  | if length < 2 then error("no trailers") else . end
  | (.[0] | split("\n")[0]) as $title
  | reduce (last | split("\n")[] | trailer) as $t
      ({}; if has($t.key) then error("\($t.key) comes twice") else .[$t.key] = $t.value end)
  | {title: $title, trailers: .};

# A commit object as git cat-file prints it, as {tree, parents, message}.
def commit:
  split("\n\n")
  | (.[0] | split("\n")) as $headers
  | {
      tree: ($headers[] | select(startswith("tree ")) | ltrimstr("tree ")),
      parents: [$headers[] | select(startswith("parent ")) | ltrimstr("parent ")],
      message: (.[1:] | join("\n\n"))
    };
