// Package docs keeps what the pages say true where a machine can tell: links lead somewhere, and no metric is left out.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	metric  = regexp.MustCompile(`"(mds_[a-z_]+)"`)
	listed  = regexp.MustCompile("`(mds_[a-z_]+)`")
	noSlug  = regexp.MustCompile(`[^a-z0-9 _-]`)
	notOurs = regexp.MustCompile(`^(\.[a-z].*|bin|testdata)$`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range files(t, ".md", "") {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			path, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			to := page
			if path != "" {
				to = filepath.Join(filepath.Dir(page), path)
			}
			_, err := os.Stat(to)
			require.NoError(t, err, "%s links to %s", page, found[1])
			if anchor != "" {
				require.Contains(t, anchors(read(t, to)), anchor, "%s links to %s", page, found[1])
			}
		}
	}
}

func TestTheListOfMetricsIsComplete(t *testing.T) {
	var there []string
	for _, file := range files(t, ".go", "internal") {
		if !strings.HasSuffix(file, "_test.go") {
			there = append(there, names(metric, read(t, file))...)
		}
	}
	require.ElementsMatch(t, there, names(listed, read(t, filepath.Join(root, "docs", "reference", "metrics.md"))))
}

func names(pattern *regexp.Regexp, text string) []string {
	var out []string
	for _, found := range pattern.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(out, found[1]) {
			out = append(out, found[1])
		}
	}
	return out
}

// anchors are the names that GitHub gives to headings.
func anchors(page string) []string {
	var out []string
	for _, found := range heading.FindAllStringSubmatch(page, -1) {
		out = append(out, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(found[1]), ""), " ", "-"))
	}
	return out
}

// files below a directory of the repository, without what is built or hidden.
func files(t *testing.T, suffix, below string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(root, below), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && notOurs.MatchString(entry.Name()) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, suffix) {
			out = append(out, path)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, out)
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(data)
}
