package decide_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gpustack.ai/model-deployment-scaler/internal/decide"
)

var (
	linked = regexp.MustCompile(`\]\(([^)]+\.yaml)\)`)
	reason = regexp.MustCompile("`([A-Z][A-Za-z]+)`")
)

// Every row of the troubleshooting page names a scenario that holds and that expects each reason and state that the row speaks of.
func TestEveryTroubleIsAScenarioThatHolds(t *testing.T) {
	all, err := filepath.Glob("../../docs/examples/troubleshooting/*.yaml")
	require.NoError(t, err)
	troubles := decide.Tables(t, "troubleshooting.md")[0]
	require.GreaterOrEqual(t, len(troubles), 7, "as many as in the specification")
	var named []string
	for _, row := range troubles {
		require.Len(t, row, 4)
		links := linked.FindAllStringSubmatch(row[3], -1)
		require.NotEmpty(t, links, "without a scenario: %v", row)
		expected := ""
		for _, link := range links {
			file := filepath.Join("../../docs", link[1])
			requireHolds(t, file)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, expectations, _ := strings.Cut(string(data), "\nexpect:")
			expected += expectations
			named = append(named, file)
		}
		for _, word := range reason.FindAllStringSubmatch(row[2], -1) {
			require.Contains(t, expected, word[1], "%s: nothing expects it", row[3])
		}
	}
	slices.Sort(named)
	require.Equal(t, all, slices.Compact(named), "every scenario of the directory is in the table")
}

// The page lists the refusals that people meet: those of the fence's rules for everybody but the decider.
func TestEveryRefusalThatPeopleMeetIsExplained(t *testing.T) {
	rules, err := os.ReadFile("../fence/anybody.go")
	require.NoError(t, err)
	var met []string
	for _, refusal := range regexp.MustCompile(`w\.refuse\((\w+),`).FindAllStringSubmatch(string(rules), -1) {
		met = append(met, refusal[1])
	}
	slices.Sort(met)
	require.ElementsMatch(t, slices.Compact(met), decide.Column(decide.Tables(t, "troubleshooting.md")[1], 0))
}
