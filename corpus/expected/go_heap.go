// Two goroutines write to the same object on the heap, which no stack contains. Nothing
// shows that a store of Go is plain, so the class is left open.
//@ build: O2
//@ full: O0 O2+nopie O2+nodebug
//@ expect: class=* what=* region=!stack functions=set_field,set_field
package main

import (
	"runtime"
	"sync"
)

type record struct {
	name  string
	field uint64
}

//go:noinline
func set_field(of *record, to uint64) {
	of.field = to
}

//go:noinline
func pause() {
	for i := 0; i < 40; i++ {
		runtime.KeepAlive(i)
	}
}

func setter(of *record, done *sync.WaitGroup) {
	runtime.LockOSThread()
	for i := uint64(0); i < 400000; i++ {
		set_field(of, i)
		pause()
	}
	done.Done()
}

func main() {
	of := &record{name: "shared"}
	var done sync.WaitGroup
	done.Add(2)
	go setter(of, &done)
	go setter(of, &done)
	done.Wait()
}
