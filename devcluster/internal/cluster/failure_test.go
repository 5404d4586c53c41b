package cluster

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplainTellsTheWayOut(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		remedy string
	}{
		"a taken port":           {os.NewSyscallError("bind", syscall.EADDRINUSE), "--block"},
		"an address that is not": {os.NewSyscallError("bind", syscall.EADDRNOTAVAIL), "needs Linux"},
		"a full disk":            {&os.PathError{Op: "write", Path: "/data/x", Err: syscall.ENOSPC}, "the disk is full"},
		"a used-up quota":        {&os.PathError{Op: "write", Path: "/data/x", Err: syscall.EDQUOT}, "quota"},
		"a foreign directory":    {&os.PathError{Op: "mkdir", Path: "/data", Err: syscall.EACCES}, "another user"},
		"a read-only disk":       {&os.PathError{Op: "mkdir", Path: "/data", Err: syscall.EROFS}, "writable"},
		"data that is in use":    {fmt.Errorf("locking: %w", errLocked), "stop that cluster"},
		"too many files":         {&os.PathError{Op: "open", Path: "/data/x", Err: syscall.EMFILE}, "ulimit"},
		"no memory":              {os.NewSyscallError("fork", syscall.ENOMEM), "memory"},
		"anything else":          {errors.New("odd"), "--verbosity"},
	} {
		t.Run(name, func(t *testing.T) {
			explained := explain(fmt.Errorf("doing a thing: %w", test.err))
			require.ErrorIs(t, explained, test.err)
			require.ErrorContains(t, explained, "\nway out: ")
			require.ErrorContains(t, explained, test.remedy)
		})
	}
}
