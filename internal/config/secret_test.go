package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/git-spot/git-spot/internal/config"
	"github.com/git-spot/git-spot/internal/gitexec"
)

func TestRedactor(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"DEEPSEEK_API_KEY": "plain/looking+value&more", "OTHER": "abc", "MOONSHOT_API_KEY": "short",
		"OPENAI_API_KEY": "plain/looking+value&more-and-longer",
	}
	c := parse(t, []gitexec.ConfigEntry{entry("local", "spot.profile.glm.apikeyenv=OTHER")})
	r := c.Redactor(func(name string) string { return env[name] })
	for _, row := range []struct{ name, text, want string }{
		{"known", "a plain/looking+value&more b", "a [redacted] b"},
		{"the longer first", "plain/looking+value&more-and-longer", "[redacted]"},
		{"in a URL", "?k=plain%2Flooking%2Bvalue%26more", "?k=[redacted]"},
		{"too short", "abc short", "abc short"},
		{"OpenAI", "key sk-ant-api03-abcdefghijklmnop.", "key [redacted]."},
		{"GitHub", "ghp_0123456789abcdefghij0123456789abcdef", "[redacted]"},
		{"bearer", "Authorization: Bearer abcdef.0123456789-x", "Authorization: Bearer [redacted]"},
		{"environment", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted]"},
		{"URL", "https://me:hunter2x@host/p", "https://me:[redacted]@host/p"},
		{"two", "sk-aaaaaaaaaaaaaaaaaaaa sk-bbbbbbbbbbbbbbbbbbbb", "[redacted] [redacted]"},
		{"object ID", "commit da39a3ee5e6b4b0d3255bfef95601890afd80709", "commit da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		{"session id", "01a2273c-61a3-7963-b052-7a2592db2c9c", "01a2273c-61a3-7963-b052-7a2592db2c9c"},
		{"prose", "the task-list of the risk-assessment-department, see https://host:8080/a", "the task-list of the risk-assessment-department, see https://host:8080/a"},
		{"code", "API_KEY=os.getenv(NAME)", "API_KEY=os.getenv(NAME)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := r.Redact(row.text); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestRedactorMasksEveryLineOfAKey(t *testing.T) {
	t.Parallel()
	r := config.Redactor{}.With("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nshort\n-----END PRIVATE KEY-----\n")
	got := r.Redact("x MIIEvQIBADANBgkqhkiG9w0B y\nshort")
	if strings.Contains(got, "MIIE") || !strings.Contains(got, "short") {
		t.Errorf("got %q", got)
	}
}

// The quotation mark that ends a value in a text is an escape in JSON: masking must not take half of it.
func TestRedactJSONLeavesJSON(t *testing.T) {
	t.Parallel()
	r := config.Redactor{}.With("not-a-known-shape")
	for _, row := range []struct{ name, text, want string }{
		{"quoted", `- "API_TOKEN=abcdefghijklmnop"`, `- "API_TOKEN=[redacted]"`},
		{"in the middle of lines", "a\nDB_PASSWORD=abcdefghijklm\nnext\ttab", "a\nDB_PASSWORD=[redacted]\nnext\ttab"},
		{"at the begin of a line", "x\nsk-abcdefghijklmnopqrst\n", "x\n[redacted]\n"},
		{"known", "\"not-a-known-shape\"\\n", "\"[redacted]\"\\n"},
		{"nothing", "\\f\f\b\u0001/\u00e9\\", "\\f\f\b\u0001/\u00e9\\"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			line, err := json.Marshal(row.text)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			if err := json.Unmarshal([]byte(r.RedactJSON(string(line))), &got); err != nil || got != row.want {
				t.Errorf("got %q, %v, want %q", got, err, row.want)
			}
		})
	}
}

// TestRedactJSON: JSON stays JSON whatever is masked in it.
func TestRedactJSON(t *testing.T) {
	t.Parallel()
	r := config.Redactor{}.With("a-key-of-somebody")
	for in, want := range map[string]string{
		`{"a":"\\\"\n\t\r\b\f\/\u00e9"}`:               `{"a":"\\\"\n\t\r\b\f\/\u00e9"}`,
		`"KEY=0123456789abc\"rest"`:                    `"KEY=[redacted]\"rest"`,
		`"KEY=0123456789abc\nrest"`:                    `"KEY=[redacted]\nrest"`,
		`"\\na-key-of-somebody\\"`:                     `"\\n[redacted]\\"`,
		"form feed \f \\n a-key-of-somebody":           "form feed \f \\n [redacted]",
		`"\nsk-0123456789abcdefghij\n"`:                `"\n[redacted]\n"`,
		`data: {"x":"sk-0123456789abcdefghij"}` + "\n": `data: {"x":"[redacted]"}` + "\n",
	} {
		if got := r.RedactJSON(in); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

// FuzzRedactJSON: what is masked in JSON leaves JSON, and nothing changes where nothing is masked.
func FuzzRedactJSON(f *testing.F) {
	f.Add(`{"a":"KEY=0123456789abc\"","b":["https://a:bcdef@x\n","\\\u0000\\\""]}`)
	f.Add(`"\nsk-0123456789abcdefghij\\"`)
	f.Fuzz(func(t *testing.T, in string) {
		out := config.Redactor{}.RedactJSON(in)
		if !strings.Contains(out, "[redacted]") && out != in {
			t.Fatalf("got %q of %q", out, in)
		}
		if json.Valid([]byte(in)) && !json.Valid([]byte(out)) {
			t.Fatalf("got %q, which is no JSON, of %q", out, in)
		}
	})
}
