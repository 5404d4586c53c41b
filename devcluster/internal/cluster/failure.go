package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const (
	tailBytes = 64 << 10
	tailLines = 15
	// linesBeforePanic is where programs log what they panic about.
	linesBeforePanic = 3
)

// componentError is the failure of a child process, told with the end of its
// log.
type componentError struct{ name, log, cause string }

func (e *componentError) Error() string {
	return fmt.Sprintf("%s failed: %s\n%s", e.name, e.cause, indent(tail(e.log)))
}

// remedies tell the way out by what the operating system or etcd says; the
// first that fits is taken.
var remedies = []struct{ says, remedy string }{
	{"address already in use", "another server has the port, perhaps on all addresses (0.0.0.0); find it with \"ss -ltnp\", or choose another block with --block"},
	{"cannot assign requested address", "this system has no such loopback address; devcluster needs Linux, where all of 127.0.0.0/8 is local"},
	{"can't assign requested address", "this system has no such loopback address; devcluster needs Linux, where all of 127.0.0.0/8 is local"},
	{"no space left on device", "the disk is full; free some space, or put the data elsewhere with --data-dir or TMPDIR"},
	{"disk quota exceeded", "the disk quota is used up; put the data elsewhere with --data-dir or TMPDIR"},
	{"database space exceeded", "etcd's database is full; start again with another --data-dir"},
	{"permission denied", "the path belongs to another user; choose another --data-dir, --log-dir, --kubeconfig or --ready-file"},
	{"read-only file system", "choose a writable --data-dir, or set TMPDIR"},
	{errLocked.Error(), "stop that cluster, or use another --data-dir"},
	{"too many open files", "raise the limit with \"ulimit -n 4096\""},
	{"cannot allocate memory", "free some memory; a cluster needs about 500 MB"},
	{"signal: killed", "it was killed from outside, most often because memory ran out; a cluster needs about 500 MB"},
}

// explain adds the way out to a failure.
func explain(err error) error {
	text := strings.ToLower(err.Error())
	for _, r := range remedies {
		if strings.Contains(text, r.says) {
			return fmt.Errorf("%w\nway out: %s", err, r.remedy)
		}
	}
	return fmt.Errorf("%w\nway out: look further with --keep --verbosity=4, which keeps whole logs", err)
}

// tail returns the last lines of a log, or why it cannot be read. Where the
// program panicked it is the message that matters and not the end of the
// stack below it.
func tail(path string) string {
	content, err := readEnd(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	first := max(0, len(lines)-tailLines)
	if i := slices.IndexFunc(lines, isPanic); i >= 0 {
		first = min(first, max(0, i-linesBeforePanic))
	}
	last := min(len(lines), first+tailLines)
	return string(bytes.Join(lines[first:last], []byte("\n")))
}

func isPanic(line []byte) bool {
	return bytes.HasPrefix(line, []byte("panic:")) || bytes.HasPrefix(line, []byte("fatal error:"))
}

// readEnd reads the last tailBytes of a file.
func readEnd(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(file, max(0, size-tailBytes), tailBytes))
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
