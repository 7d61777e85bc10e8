// SPDX-License-Identifier: Apache-2.0

// Package plural writes a count with its noun, singular or plural.
package plural

import "fmt"

// Of counts things that are named by their singular, of which an -s makes the plural.
func Of(number int, thing string) string {
	if number == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", number, thing)
}
