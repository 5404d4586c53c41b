package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ownFileMark is the first line of the kubeconfig files written here. A file
// without it belongs to somebody and is never replaced.
const ownFileMark = "# Written by devcluster; replaced at every start.\n"

// writeFile writes a file that appears whole or not at all.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = temporary.Write(content)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(temporary.Name()))
	}
	return nil
}

// checkReplaceable refuses a kubeconfig path at which somebody's own file is.
func checkReplaceable(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(content, []byte(ownFileMark)) {
		return fmt.Errorf("%s was not written by devcluster and would be lost: give --kubeconfig another path", path)
	}
	return nil
}

// removeFile removes a file that may be gone already.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
