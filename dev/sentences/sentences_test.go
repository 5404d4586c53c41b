package sentences

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSentencesAreFoundWhereverTheyStand(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.go"), []byte(`package a

import "a long import path"

type t struct { F string `+"`json:\"not a sentence\"`"+` }

func f(name string, n int) {
	log.Info("nobody reads this")
	w.refuse(Reason, "role %s has %3.1f replicas, "+"which is too many", name, n)
	g("role " + name + " is (too) small")
	g("two words")
	http.Error(w, "an answer to people", 400)
}
`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a\n\nconst c = `what tests say counts not`\n"), 0o600))
	found, err := In(dir)
	require.NoError(t, err)
	require.Len(t, found, 3)
	require.Equal(t, `role .* has .* replicas, which is too many`, found[0].Pattern.String())
	require.Contains(t, found[0].At, "a.go:9:")
	missing := Missing(found, "role x has 3 replicas, which is too many\nan answer to people\n")
	require.Equal(t, []string{found[1].At + `: role .* is \(too\) small`}, missing)
}
