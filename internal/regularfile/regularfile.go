// SPDX-License-Identifier: Apache-2.0

// Package regularfile reads regular files of bounded length. It neither reads nor waits for pipes and devices.
package regularfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Unfit is the error for a file of another kind or length.
type Unfit struct {
	Path string
	Info fs.FileInfo
	Most int64 // bytes
}

func (u *Unfit) Error() string {
	return fmt.Sprintf("%s: expected a regular file of at most %d bytes", u.Path, u.Most)
}

// Read returns the content and the information of a file.
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
