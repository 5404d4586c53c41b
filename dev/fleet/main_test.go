package fleet

import "os"

func exit(code int) { os.Exit(code) }
