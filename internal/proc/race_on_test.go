//go:build race

package proc_test

// raceEnabled: the race detector takes several times the memory.
const raceEnabled = true
