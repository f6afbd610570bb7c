package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"testing/fstest"
	"time"
)

// demoWith is the program "demo-with OLD NEW argument of demo...": the demo whose honest model says NEW
// where its script says OLD.
func demoWith(args []string) int {
	files := fstest.MapFS{}
	err := fs.WalkDir(demoFiles, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := demoFiles.ReadFile(path)
		files[path] = &fstest.MapFile{Data: data, Mode: 0o644}
		return err
	})
	words := files["demo/honest.json"]
	if err != nil || bytes.Count(words.Data, []byte(args[0])) != 1 {
		fmt.Fprintf(os.Stderr, "%q is not once in the script: %v\n", args[0], err)
		return 1
	}
	words.Data = bytes.Replace(words.Data, []byte(args[0]), []byte(args[1]), 1)
	ctx, stop := withSignals(context.Background())
	defer stop()
	e := &env{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now}
	return e.finish(ctx, runDemo(ctx, e, demoOptions{dir: args[2]}, files))
}
