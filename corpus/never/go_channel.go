// Values go through a channel while the garbage collector is kept busy.
// Nothing shows what is atomic in Go, so that words of the runtime, such as the stack limit that
// it changes to interrupt a goroutine, are possibly atomic.
//@ allow: possibly-atomic
//@ build: O2
//@ full: O0 O2+nodebug
//@ focus: fill look
//@ twin-expect: class=* what=only functions=fill,look
package main

import (
	"runtime"
	"sync"
)

var twin string

type message struct {
	text [4]uint64
}

var only message
var sum uint64

//go:noinline
func fill(to *message, with uint64) {
	to.text[2] = with
}

//go:noinline
func look(at *message) uint64 {
	return at.text[2]
}

func next() *message {
	if twin != "" {
		return &only
	}
	return new(message)
}

func sender(pipe chan *message) {
	runtime.LockOSThread()
	for i := uint64(0); i < 100000; i++ {
		each := next()
		fill(each, i)
		pipe <- each
	}
	close(pipe)
}

func receiver(pipe chan *message, done *sync.WaitGroup) {
	runtime.LockOSThread()
	for each := range pipe {
		sum += look(each)
	}
	done.Done()
}

func main() {
	var done sync.WaitGroup
	pipe := make(chan *message, 64)
	done.Add(1)
	go sender(pipe)
	go receiver(pipe, &done)
	done.Wait()
}
