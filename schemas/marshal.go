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
		v = filled(reflect.ValueOf(v)).Interface()
	}
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// filled returns a copy of v whose nil slices and maps are empty ones. Values that encode themselves
// stay as they are, and so do byte slices, which are strings in JSON.
func filled(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Struct, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Array, reflect.Map:
	default:
		return v
	}
	t := v.Type()
	if encodesItself(t) {
		return v
	}
	out := reflect.New(t).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		target := reflect.New(t.Elem())
		target.Elem().Set(filled(v.Elem()))
		return target.Convert(t)
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		out.Set(filled(v.Elem()))
	case reflect.Struct:
		out.Set(v)
		fillStruct(out)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return v
		}
		out.Set(reflect.MakeSlice(t, v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(filled(v.Index(i)))
		}
	case reflect.Array:
		for i := range v.Len() {
			out.Index(i).Set(filled(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMapWithSize(t, v.Len()))
		for entries := v.MapRange(); entries.Next(); {
			out.SetMapIndex(entries.Key(), filled(entries.Value()))
		}
	}
	return out
}

func fillStruct(v reflect.Value) {
	for i := range v.NumField() {
		field, f := v.Type().Field(i), v.Field(i)
		_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case strings.Contains(options, "omitzero") && f.IsZero():
			// An empty slice is not a zero value: filling it would bring the field back.
		case f.CanSet():
			f.Set(filled(f))
		case field.Anonymous && f.Kind() == reflect.Struct:
			fillStruct(f)
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
