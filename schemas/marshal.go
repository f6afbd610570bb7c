package schemas

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// MarshalIndent encodes v as every document of git spot is written: two spaces, keys in the order of
// the type, "<", ">" and "&" as they are, a final newline. A nil slice comes out as [], a nil map as {},
// unless the field is left out when empty. v itself is not changed. Equal values give equal bytes.
func MarshalIndent(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if v != nil {
		v = filler{}.filled(reflect.ValueOf(v)).Interface()
	}
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// filler makes copies of values without nil slices and maps. It remembers the types that hold none.
type filler map[reflect.Type]bool

// plain reports whether no value of t has anything to fill. Values that encode themselves stay as they
// are, and so do byte slices, which are strings in JSON.
func (f filler) plain(t reflect.Type) bool {
	known, ok := f[t]
	if ok {
		return known
	}
	f[t] = false // for as long as t is met again inside itself
	switch t.Kind() {
	case reflect.Map, reflect.Interface:
		f[t] = encodesItself(t)
	case reflect.Slice:
		f[t] = t.Elem().Kind() == reflect.Uint8 || encodesItself(t)
	case reflect.Pointer, reflect.Array:
		f[t] = encodesItself(t) || f.plain(t.Elem())
	case reflect.Struct:
		all := true
		for i := range t.NumField() {
			all = f.plain(t.Field(i).Type) && all
		}
		f[t] = all || encodesItself(t)
	default:
		f[t] = true
	}
	return f[t]
}

// filled returns a copy of v whose nil slices and maps are empty ones.
func (f filler) filled(v reflect.Value) reflect.Value {
	t := v.Type()
	if f.plain(t) {
		return v
	}
	out := reflect.New(t).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		target := reflect.New(t.Elem())
		target.Elem().Set(f.filled(v.Elem()))
		return target.Convert(t)
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out.Set(f.filled(v.Elem()))
	case reflect.Struct:
		out.Set(v)
		f.fillStruct(out)
	case reflect.Slice:
		out.Set(reflect.MakeSlice(t, v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(f.filled(v.Index(i)))
		}
	case reflect.Array:
		for i := range v.Len() {
			out.Index(i).Set(f.filled(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMapWithSize(t, v.Len()))
		for entries := v.MapRange(); entries.Next(); {
			out.SetMapIndex(entries.Key(), f.filled(entries.Value()))
		}
	}
	return out
}

func (f filler) fillStruct(v reflect.Value) {
	for i := range v.NumField() {
		field, part := v.Type().Field(i), v.Field(i)
		if f.plain(field.Type) {
			continue
		}
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case strings.Contains(options, "omitzero") && part.IsZero():
			// An empty slice is not a zero value: filling it would bring the field back.
		case part.CanSet():
			part.Set(f.filled(part))
		case field.Anonymous && part.Kind() == reflect.Struct:
			f.fillStruct(part)
		}
	}
}

func encodesItself(t reflect.Type) bool {
	for _, self := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(self) || t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(self) {
			return true
		}
	}
	return false
}
