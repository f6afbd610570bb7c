// Package schemas holds everything that crosses the boundary of git spot as data: the wire types, the
// error codes with their exit statuses, and the JSON Schema 2020-12 files that describe the types. It
// imports nothing else of this module, so that any package and any later program can use it.
//
// Every document but an event and an error carries schemaVersion. Decoding is strict: an unknown key, a
// key given twice or a value of another kind is an error that names the JSON pointer and never repeats a
// value, which may be a secret. The schemas are compiled at their first use.
package schemas

// Version is the schemaVersion of every document that this program writes.
const Version = 1
