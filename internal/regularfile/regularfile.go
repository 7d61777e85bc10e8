// SPDX-License-Identifier: Apache-2.0

// Package regularfile reads regular files of a bounded length. No other file is read, nor waited for: not a pipe, not a device.
package regularfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Unfit is the error for a file that is another one.
type Unfit struct {
	Path string
	Info fs.FileInfo
	Most int64 // bytes
}

func (u *Unfit) Error() string {
	return fmt.Sprintf("%s: expected a regular file of at most %d bytes", u.Path, u.Most)
}

// Read returns what is in the file, and what the file is.
func Read(path string, most int64) ([]byte, fs.FileInfo, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, info, &Unfit{path, info, most}
	}
	text, err := io.ReadAll(io.LimitReader(file, most))
	return text, info, err
}
