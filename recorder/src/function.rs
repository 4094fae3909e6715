//! The one table of the functions that we stand in for or call, and of what each means for the heap.
#![forbid(unsafe_code)]

use heapwire_format::Family;

/// A symbol name that ends with a zero byte; what follows that is not part of it.
pub(crate) type Name = [u8];

/// Where each of the names in `text` starts, all of which end with a zero byte.
#[expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "runs in the compiler, which refuses what does not fit"
)]
const fn starts<const N: usize>(text: &[u8]) -> [u16; N] {
    assert!(text.len() < u16::MAX as usize);
    let (mut out, mut at, mut count) = ([0; N], 0, 0);
    while count < N {
        out[count] = at as u16;
        while text[at] != 0 {
            at += 1;
        }
        at += 1;
        count += 1;
    }
    out
}

/// What a forwarded call does to the heap, and which arguments say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Has a hook of its own, or is only called.
    Own,
    /// Returns a block of the size in argument `size`.
    Allocate { family: Family, size: u8 },
    /// Returns a block of the size in argument 0 times argument 1.
    AllocateProduct,
    /// Stores a block in the pointer of argument 0 and returns 0.
    AllocateInto,
    /// Releases argument 0; `size` is the argument that gives its size, if one does.
    Release { family: Family, size: Option<u8> },
    /// Resizes argument 0 to the size in argument 1.
    Resize,
    /// Allocates on behalf of its caller, by calls of `malloc` and its kin.
    Help,
    /// May unmap a module.
    Unload,
    /// Makes a child process.
    Fork,
    /// Gives and sets the disposition of a signal.
    Disposition,
}

macro_rules! functions {
    ($($variant:ident $text:expr, $role:expr;)*) => {
        /// A function that we stand in for or call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Function { $($variant,)* }

        /// How many there are.
        pub(crate) const COUNT: usize = [$(Function::$variant,)*].len();

        const _: () = assert!(COUNT <= 256, "an entry says its index in one byte");

        const ALL: [Function; COUNT] = [$(Function::$variant,)*];

        /// All names in one piece: a table of references would need relocation, and hooks can run before there was any.
        const TEXT: &[u8] = concat!($($text, "\0",)*).as_bytes();

        const STARTS: [u16; COUNT] = starts(TEXT);

        impl Function {
            pub(crate) fn name(self) -> &'static Name {
                let start = STARTS.get(self as usize).copied().unwrap_or_default();
                TEXT.get(usize::from(start)..).unwrap_or_default()
            }

            /// The function with this index in the table.
            pub(crate) fn at(index: usize) -> Option<Self> {
                ALL.get(index).copied()
            }

            pub(crate) fn role(self) -> Role {
                match self { $(Self::$variant => $role,)* }
            }

            /// What does the same where nothing else is there: an operator without C++'s library.
            pub(crate) fn stand_in(self) -> Self {
                match self.role() {
                    Role::Allocate { .. } => Self::Malloc,
                    Role::Release { .. } => Self::Free,
                    _ => self,
                }
            }
        }
    };
}

use Family::{Aligned, New, NewAligned, NewArray, NewArrayAligned};
use Role::{
    Allocate, AllocateInto, AllocateProduct, Disposition, Fork, Help, Own, Release, Resize, Unload,
};

const fn new(family: Family) -> Role {
    Allocate { family, size: 0 }
}

const fn delete(family: Family) -> Role {
    Release { family, size: None }
}

const fn sized_delete(family: Family) -> Role {
    Release {
        family,
        size: Some(1),
    }
}

/// Calls the macro `$with` with the table: each function, its name, and its role.
macro_rules! each_function {
    ($with:ident) => {
        $with! {
            Malloc "malloc", Own;
            Free "free", Own;
            Realloc "realloc", Resize;
            Reallocarray "reallocarray", Resize;
            Cfree "cfree", Own;
            FreeSized "free_sized", Own;
            FreeAlignedSized "free_aligned_sized", Own;
            Calloc "calloc", AllocateProduct;
            Memalign "memalign", Allocate { family: Aligned, size: 1 };
            AlignedAlloc "aligned_alloc", Allocate { family: Aligned, size: 1 };
            PosixMemalign "posix_memalign", AllocateInto;
            Valloc "valloc", Allocate { family: Aligned, size: 0 };
            Pvalloc "pvalloc", Allocate { family: Aligned, size: 0 };
            NewPlain $crate::function::sized!("_Znw", ""), new(New);
            NewNothrow $crate::function::sized!("_Znw", "RKSt9nothrow_t"), new(New);
            NewAlign $crate::function::sized!("_Znw", "St11align_val_t"), new(NewAligned);
            NewAlignNothrow $crate::function::sized!("_Znw", "St11align_val_tRKSt9nothrow_t"), new(NewAligned);
            ArrayPlain $crate::function::sized!("_Zna", ""), new(NewArray);
            ArrayNothrow $crate::function::sized!("_Zna", "RKSt9nothrow_t"), new(NewArray);
            ArrayAlign $crate::function::sized!("_Zna", "St11align_val_t"), new(NewArrayAligned);
            ArrayAlignNothrow $crate::function::sized!("_Zna", "St11align_val_tRKSt9nothrow_t"), new(NewArrayAligned);
            DeletePlain "_ZdlPv", delete(New);
            DeleteNothrow "_ZdlPvRKSt9nothrow_t", delete(New);
            DeleteSized $crate::function::sized!("_ZdlPv", ""), sized_delete(New);
            DeleteAlign "_ZdlPvSt11align_val_t", delete(NewAligned);
            DeleteAlignNothrow "_ZdlPvSt11align_val_tRKSt9nothrow_t", delete(NewAligned);
            DeleteSizedAlign $crate::function::sized!("_ZdlPv", "St11align_val_t"), sized_delete(NewAligned);
            DeleteArray "_ZdaPv", delete(NewArray);
            DeleteArrayNothrow "_ZdaPvRKSt9nothrow_t", delete(NewArray);
            DeleteArraySized $crate::function::sized!("_ZdaPv", ""), sized_delete(NewArray);
            DeleteArrayAlign "_ZdaPvSt11align_val_t", delete(NewArrayAligned);
            DeleteArrayAlignNothrow "_ZdaPvSt11align_val_tRKSt9nothrow_t", delete(NewArrayAligned);
            DeleteArraySizedAlign $crate::function::sized!("_ZdaPv", "St11align_val_t"), sized_delete(NewArrayAligned);
            Strdup "strdup", Help;
            StrdupOld "__strdup", Help;
            Strndup "strndup", Help;
            StrndupOld "__strndup", Help;
            Wcsdup "wcsdup", Help;
            Vasprintf "vasprintf", Help;
            VasprintfChecked "__vasprintf_chk", Help;
            Getline "getline", Help;
            Getdelim "getdelim", Help;
            GetdelimOld "__getdelim", Help;
            Realpath "realpath", Help;
            RealpathChecked "__realpath_chk", Help;
            CanonicalizeFileName "canonicalize_file_name", Help;
            Getcwd "getcwd", Help;
            GetcwdChecked "__getcwd_chk", Help;
            GetCurrentDirName "get_current_dir_name", Help;
            Dlclose "dlclose", Unload;
            Fork "fork", Fork;
            ForkOnly "_Fork", Fork;
            Sigaction "sigaction", Disposition;
            Signal "signal", Disposition;
            SignalSysv "__sysv_signal", Disposition;
            SignalBsd "bsd_signal", Disposition;
            SignalOld "ssignal", Disposition;
            SignalPlainSysv "sysv_signal", Disposition;
            Sigset "sigset", Disposition;
            Exit "_exit", Own;
            ExitC "_Exit", Own;
            QuickExit "quick_exit", Own;
            Execve "execve", Own;
            Execv "execv", Own;
            Execvp "execvp", Own;
            Execvpe "execvpe", Own;
            Execl "execl", Own;
            Execlp "execlp", Own;
            Execle "execle", Own;
            Fexecve "fexecve", Own;
            Execveat "execveat", Own;
            Longjmp "longjmp", Own;
            LongjmpOld "_longjmp", Own;
            LongjmpChecked "__longjmp_chk", Own;
            Siglongjmp "siglongjmp", Own;
            Abort "abort", Own;
            AssertFail "__assert_fail", Own;
            Prctl "prctl", Own;
            Syscall "syscall", Own;
            Mmap "mmap", Own;
            MmapWide "mmap64", Own;
            Munmap "munmap", Own;
            Mtrace "mtrace", Own;
            Muntrace "muntrace", Own;
            Getenv "secure_getenv", Own;
            GnuLibcVersion "gnu_get_libc_version", Own;
        }
    };
}

/// Name of an operator that takes a size, whose type is part of it.
macro_rules! sized {
    ($before:literal, $behind:literal) => {
        concat!($before, $crate::function::size_type!(), $behind)
    };
}

/// `unsigned long`, or `unsigned int` where that has the width of a word.
#[cfg(target_pointer_width = "64")]
macro_rules! size_type {
    () => {
        "m"
    };
}
#[cfg(target_pointer_width = "32")]
macro_rules! size_type {
    () => {
        "j"
    };
}

#[cfg(heapwire_static)]
pub(crate) use each_function;
pub(crate) use {size_type, sized};

each_function!(functions);

#[cfg(test)]
mod tests {
    use super::{COUNT, Function, Role};

    #[test]
    fn every_name_is_whole_and_there_once() {
        let names: Vec<_> = (0..COUNT)
            .map(|index| Function::at(index).unwrap().name())
            .map(|name| name.split(|byte| *byte == 0).next().unwrap())
            .collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!name.is_empty() && !names[..at].contains(name));
        }
        assert_eq!(names.first(), Some(&&b"malloc"[..]));
        assert_eq!(names.last(), Some(&&b"gnu_get_libc_version"[..]));
        assert_eq!(Function::at(COUNT), None);
        assert_eq!(Function::at(0), Some(Function::Malloc));
    }

    #[test]
    fn sizes_stand_where_the_prototypes_have_them() {
        let size_of = |function: Function| match function.role() {
            Role::Allocate { size, .. } => Some(size),
            Role::Release { size, .. } => size,
            _ => None,
        };
        assert_eq!(size_of(Function::Memalign), Some(1));
        assert_eq!(size_of(Function::NewAlign), Some(0));
        assert_eq!(size_of(Function::DeleteSizedAlign), Some(1));
        assert_eq!(size_of(Function::DeletePlain), None);
    }
}
