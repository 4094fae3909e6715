//! Leaks two blocks in a function that is merged into another one.
#![no_std]
#![no_main]

use core::hint::black_box;

#[link(name = "c")]
extern "C" {
    fn malloc(bytes: usize) -> *mut u8;
}

mod shop {
    pub struct Crate<T>(pub T);

    impl<T: Copy + Into<u32>> Crate<T> {
        #[inline(always)]
        pub fn fill(&self, bytes: usize) {
            let more = self.0.into() as usize;
            super::black_box(unsafe { super::malloc(bytes + more) });
        }
    }
}

#[inline(never)]
fn outer(bytes: usize) {
    shop::Crate(3u16).fill(bytes);
    black_box(bytes);
}

#[no_mangle]
pub extern "C" fn main(count: i32) -> i32 {
    outer(4318 * count as usize);
    outer(4318 * count as usize);
    0
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
