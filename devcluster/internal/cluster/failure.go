package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	tailBytes = 16 << 10
	tailLines = 15
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

// tail returns the last lines of a log, or why it cannot be read.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err != nil {
		return err.Error()
	} else if _, err := file.Seek(max(0, size-tailBytes), io.SeekStart); err != nil {
		return err.Error()
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}
