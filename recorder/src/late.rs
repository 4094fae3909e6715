//! Functions that come with plug-ins: a C program has no C++ operators until it loads a plug-in, and each plug-in can bring its
//! own.
//!
//! All calls come to us, as we are found first. Which definition the calling module would have got without us is found by the
//! loader's rule: what it was loaded for, then the libraries that this asks for, breadth first. What is found is kept for
//! the place of the call until a module goes away.
#![forbid(unsafe_code)]

use crate::function::{Function, Name};
use crate::loader::{self, Found, Module, Modules};
use crate::{loaded, next};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// One definition that was found. Threads store the words of a slot at the same time: `check` tells which belong together.
struct Answer {
    check: AtomicUsize,
    address: AtomicUsize,
    length: AtomicUsize,
}

/// A power of two.
const ANSWERS: usize = 512;

static KEPT: [Answer; ANSWERS] = [const {
    Answer {
        check: AtomicUsize::new(0),
        address: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
    }
}; ANSWERS];

/// How often modules went away.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// Modules are gone: what was found may be as well.
pub(crate) fn forget() {
    GENERATION.fetch_add(1, Relaxed); // publishes nothing
}

/// What is looked for, by whom, and since when.
#[derive(Clone, Copy)]
struct Question(usize);

impl Question {
    fn of(function: Function, asker: usize, generation: usize) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "its low half is odd as well"
        )]
        const ODD: usize = 0x9E37_79B9_7F4A_7C15_u64 as usize;
        let what = (function as usize).wrapping_shl(usize::BITS.wrapping_sub(7));
        Self((asker ^ what).wrapping_mul(ODD) ^ generation.wrapping_mul(ODD).swap_bytes())
    }

    fn answer(self) -> Option<&'static Answer> {
        KEPT.get(self.0.wrapping_shr(20) & (ANSWERS - 1))
    }

    fn sum(self, found: Found) -> usize {
        self.0 ^ found.address ^ found.length.rotate_left(32)
    }

    // Relaxed, both: code that is there as long as its caller is.

    #[inline(never)]
    fn recall(self) -> Option<Found> {
        let answer = self.answer()?;
        let found = Found {
            address: answer.address.load(Relaxed),
            length: answer.length.load(Relaxed),
        };
        let is_ours = answer.check.load(Relaxed) == self.sum(found);
        (is_ours && found.address != 0).then_some(found)
    }

    #[inline(never)]
    fn keep(self, found: Found) {
        if let Some(answer) = self.answer() {
            answer.address.store(found.address, Relaxed);
            answer.length.store(found.length, Relaxed);
            answer.check.store(self.sum(found), Relaxed);
        }
    }
}

/// What a call of `function` that returns to `pc` is meant for, where no module defined it when the program began.
pub(crate) fn find(function: Function, pc: usize) -> Option<Found> {
    let generation = GENERATION.load(Relaxed);
    let by_place = Question::of(function, pc, generation);
    let known = by_place.recall();
    if known.is_some() {
        return known;
    }
    let caller = module_of(pc);
    let by_module = Question::of(function, caller.dynamic, generation);
    let found = match by_module.recall() {
        Some(found) => found,
        None => search(function, caller).or_else(|| next::found(function.stand_in()))?,
    };
    by_module.keep(found);
    by_place.keep(found);
    Some(found)
}

/// The module whose code is at `pc`: its dynamic section is the next one behind.
fn module_of(pc: usize) -> Module {
    let mut last = usize::MAX;
    loop {
        let mut found = Module::default();
        for module in loaded::later_modules() {
            // Without 0, which is that of no module, the least.
            if module.dynamic > pc && module.dynamic.wrapping_sub(1) < found.dynamic.wrapping_sub(1)
            {
                found = module;
            }
        }
        // Another thread may be taking modules out of the list; then two looks do not agree.
        if found.dynamic == last {
            return found;
        }
        last = found.dynamic;
    }
}

fn search(function: Function, caller: Module) -> Option<Found> {
    let name = function.name();
    let (first, found) = loaded::later_modules().first_with(name)?;
    let is_one = Modules::after(&first).first_with(name).is_none();
    if !is_one || !loaded::is_cxx_library(&first) {
        next::operators_are_replaced();
    }
    // One that is alone must be the one: a module that finds none is not loaded.
    if is_one {
        return Some(found);
    }
    in_global_scope(name)
        .or_else(|| in_scope_of(caller, name))
        .or(Some(found))
}

/// What the first module defines by that name among those that were opened for all others (`RTLD_GLOBAL`).
fn in_global_scope(name: &Name) -> Option<Found> {
    let [array, count] = loader::probe(global_scope()?)?;
    loaded::later_modules().find_map(|module| {
        let found = module.find(name)?;
        let mut places =
            (0..count & COUNT).map(|index| array.wrapping_add(index.wrapping_mul(WORD)));
        let is_there = places.any(|at| loader::probe(at).is_some_and(|[at, _]| at == module.at));
        is_there.then_some(found)
    })
}

const WORD: usize = size_of::<usize>();
/// A count of 32 bits in a word.
const COUNT: usize = 0xFFFF_FFFF;

/// Where the loader keeps the array of the modules of the global scope, and their number behind it.
///
/// The GNU loader has both in the first module's entry, behind its public part: they are known by the array, which begins with that
/// entry, and by a number that can be one. Where they are not found nothing is taken for global.
fn global_scope() -> Option<usize> {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    const FIELDS: usize = 160;
    let known = PLACE.load(Relaxed);
    if known != 0 {
        return Some(known);
    }
    let main = Modules::all().next()?.at;
    let mut fields = (5..FIELDS).map(|index| main.wrapping_add(index.wrapping_mul(WORD)));
    let place = fields.find(|field| {
        loader::probe(*field).is_some_and(|[array, count]| {
            (2..10_000).contains(&(count & COUNT))
                && loader::probe(array).is_some_and(|[first, _]| first == main)
        })
    })?;
    PLACE.store(place, Relaxed); // the entry stays
    Some(place)
}

/// What the first module of the scope that `caller` was loaded into defines by that name.
fn in_scope_of(caller: Module, name: &Name) -> Option<Found> {
    const MOST: usize = 32;
    let mut scope = [0; MOST];
    *scope.first_mut()? = root_of(caller).at;
    for index in 0..MOST {
        let module = Modules::from(*scope.get(index)?).next()?;
        let found = module.find(name);
        if found.is_some() {
            return found;
        }
        module.needs(&mut |name| {
            let needed = loaded::later_modules().find(|module| is_named(module, name));
            if let Some(Module { at, .. }) = needed
                && let Some(place) = scope.iter_mut().find(|it| **it == 0 || **it == at)
            {
                *place = at;
            }
            false
        });
    }
    None
}

/// The module that the loader was asked for when it loaded `module`: it comes before all that it needs.
fn root_of(mut module: Module) -> Module {
    'up: loop {
        for before in loaded::later_modules() {
            if before.at == module.at {
                break;
            }
            if before.needs(&mut |name| is_named(&module, name)) {
                module = before;
                continue 'up;
            }
        }
        return module;
    }
}

fn is_named(module: &Module, name: &[u8]) -> bool {
    loader::base_name(module.path, &mut [0; 256]) == Some(name)
}
