package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// temporaryPattern names thrown-away data directories, so that what a killed
// process left behind can be found.
const temporaryPattern = "devcluster-data-*"

// dataDir is where one cluster keeps everything; its lock file is held as
// long as the process lives.
type dataDir struct {
	path      string
	temporary bool
	lock      *os.File
}

func (d *dataDir) join(name string) string { return filepath.Join(d.path, name) }

// openDataDir opens the directory at path, or a temporary one where path is
// empty, and locks it against a second cluster.
func openDataDir(path string) (*dataDir, error) {
	d := &dataDir{path: path, temporary: path == ""}
	var err error
	if d.temporary {
		if err := sweepTemporary(); err != nil {
			return nil, fmt.Errorf("removing data of clusters that were killed: %w", err)
		}
		d.path, err = os.MkdirTemp("", temporaryPattern)
	} else if d.path, err = filepath.Abs(path); err == nil {
		err = os.MkdirAll(d.path, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("creating data directory: %w", err)
	}
	if d.lock, err = lockFile(d.join("lock"), os.O_CREATE); err != nil {
		return nil, fmt.Errorf("locking data directory %s: %w", d.path, err)
	}
	return d, nil
}

// close gives the directory back; remove says whether its content goes too.
func (d *dataDir) close(remove bool) error {
	var err error
	if remove {
		err = os.RemoveAll(d.path)
	}
	return errors.Join(err, d.lock.Close())
}

// block returns the block that kept data belongs to, 0 for new data. Stored
// ClusterIPs are addresses of that block, so it never changes.
func (d *dataDir) block() (Block, error) {
	text, err := os.ReadFile(d.join("block"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", d.join("block"), err)
	}
	return Block(number), nil
}

func (d *dataDir) setBlock(b Block) error {
	return writeFile(d.join("block"), fmt.Appendf(nil, "%d\n", int(b)), 0o600)
}

var errLocked = errors.New("another devcluster is using it")

// lockFile locks a file until it is closed. It is not inherited by children.
func lockFile(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// sweepTemporary removes temporary data whose process was killed. A directory
// without a lock file is being made right now, one that cannot be opened is
// another user's.
func sweepTemporary() error {
	directories, err := filepath.Glob(filepath.Join(os.TempDir(), temporaryPattern))
	if err != nil {
		return err
	}
	for _, directory := range directories {
		lock, err := lockFile(filepath.Join(directory, "lock"), 0)
		if err != nil {
			continue
		}
		if err := errors.Join(os.RemoveAll(directory), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}
