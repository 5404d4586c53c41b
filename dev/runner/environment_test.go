package runner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReferencesExpandAsInKubernetes(t *testing.T) {
	env := []string{"A=1", "B=2", "A=3"}
	for text, want := range map[string]string{
		"plain": "plain", "--x=$(A)": "--x=3", "$(A)$(B)": "32", "$(MISSING)": "$(MISSING)", "$$(A)": "$(A)", "$A": "$A",
	} {
		require.Equal(t, want, expand(text, env), text)
	}
}

func TestImageNamesLoseTagAndDigest(t *testing.T) {
	for image, want := range map[string]string{
		"a/b:dev": "a/b", "a/b": "a/b", "host:5000/a/b": "host:5000/a/b", "host:5000/a/b:1": "host:5000/a/b", "a/b@sha256:00": "a/b",
	} {
		require.Equal(t, want, imageName(image), image)
	}
}
