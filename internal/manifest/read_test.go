package manifest

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const several = `# a comment
kind: First
metadata:
  name: one
--- # and another
kind: SecondList
items:
  - kind: Second
    spec:
      roles:
        - &role
          name: a
        - *role
      note: {"a.b/c": x}
  - not an object
---

---
- nor this
---
kind: Third
yes: no
count: 3
`

func TestObjectsAreReadWithTheirLines(t *testing.T) {
	found, failures := Read([]string{"-"}, strings.NewReader("\xef\xbb\xbf"+several))
	require.Empty(t, failures)
	require.Len(t, found, 3)
	first, second, third := found[0], found[1], found[2]
	require.Equal(t, "standard input", first.File)
	require.Equal(t, "one", first.Text("metadata", "name"))
	require.Empty(t, first.Text("metadata", "name", "more"))
	require.Equal(t, "Second", second.Text("kind"))
	require.Equal(t, map[string]any{"kind": "Third", "true": false, "count": int64(3)}, third.Object, "YAML as kubectl reads it")
	for path, line := range map[string]int{"": 8, "spec": 9, "spec.roles[0].name": 12, "spec.roles[1]": 13, "spec.roles[1].name": 12, "spec.roles[7]": 10,
		"spec.roles[-1]": 10, "spec.note[a.b/c]": 14, "spec.other": 9, "<nil>": 8} {
		require.Equal(t, line, second.Line(path), path)
	}
	require.Equal(t, 3, first.Line("metadata"))
	require.Equal(t, 23, third.Line("count"))
}

func TestWhatCannotBeReadIsNamedAndTheRestIsRead(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{
		"good.yaml": "kind: Good", "good.json": `{"kind": "Good"}`, "notes.txt": "kind: Text", ".git/x.yaml": "kind: Hidden", "sub/deep.yml": "kind: Deep",
		"tabs.yaml": "kind:\n\tBad", "twice.yaml": "---\nkind: A\nkind: B",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600))
	}
	found, failures := Read([]string{filepath.Join(dir, "missing"), dir, "-"}, io.LimitReader(brokenReader{}, 1))
	var kinds []string
	for _, m := range found {
		kinds = append(kinds, m.Text("kind"))
	}
	require.Equal(t, []string{"Good", "Good", "Deep"}, kinds)
	require.Len(t, failures, 4)
	require.ErrorIs(t, failures[0], os.ErrNotExist)
	require.ErrorContains(t, failures[1], "tabs.yaml: yaml: line 2")
	require.ErrorContains(t, failures[2], "twice.yaml: yaml: unmarshal errors:\n  line 3: key \"kind\" already set")
	require.ErrorIs(t, failures[3], io.ErrUnexpectedEOF)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Whatever bytes a file holds: no panic, and every object has lines within the file.
func FuzzRead(f *testing.F) {
	f.Add([]byte(several))
	f.Add([]byte("kind: List\nitems: [{spec: {roles: [null]}}]"))
	f.Add([]byte("a: &a [*a]\n---\r\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := 1 + len(data) // YAML knows more line ends than \n, all of a byte or more
		for document := range documentsOf(data) {
			found, err := readDocument("fuzzed", document)
			if err != nil {
				continue
			}
			for i := range found {
				for _, path := range []string{"", "kind", "spec.roles[0].name", "metadata.annotations[a/b]", "[0]"} {
					require.LessOrEqual(t, found[i].Line(path), lines)
				}
			}
		}
	})
}
