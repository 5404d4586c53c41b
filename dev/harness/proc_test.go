package harness

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// children are the processes that this one started and that still run.
func children(t *testing.T) (commands []string) {
	t.Helper()
	for _, p := range processes(t) {
		if fields := strings.Fields(p.stat[strings.LastIndex(p.stat, ")")+1:]); fields[1] == strconv.Itoa(os.Getpid()) {
			commands = append(commands, p.stat)
		}
	}
	return commands
}

// environmentOf the process that plays a Pod.
func environmentOf(t *testing.T, pod string) string {
	t.Helper()
	for _, p := range processes(t) {
		environment, err := os.ReadFile(filepath.Join(p.dir, "environ"))
		if err == nil && strings.Contains("\x00"+string(environment), "\x00POD_NAME="+pod+"\x00") {
			return string(environment)
		}
	}
	require.Fail(t, "no process plays Pod "+pod)
	return ""
}

type entry struct{ dir, stat string }

func processes(t *testing.T) (list []entry) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	require.NoError(t, err)
	for _, dir := range dirs {
		if stat, err := os.ReadFile(filepath.Join(dir, "stat")); err == nil { // others end meanwhile
			list = append(list, entry{dir, string(stat)})
		}
	}
	return list
}
