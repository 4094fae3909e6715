// C below Go: goroutines that allocate in C, and a collector that stops the world meanwhile.
package main

// #include <stdlib.h>
// static void *volatile kept;
// static void keep(int size) { kept = malloc(size); }
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

func main() {
	var group sync.WaitGroup
	for worker := 0; worker < 16; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < 50; round++ {
				text := C.CString("some text")
				_ = make([]byte, 10000)
				runtime.GC()
				C.free(unsafe.Pointer(text))
			}
		}()
	}
	group.Wait()
	C.keep(50001)
	fmt.Println("done")
}
