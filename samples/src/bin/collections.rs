//! An ordinary Rust program: collections that grow and go, on two threads, with output.

use std::collections::BTreeMap;
use std::thread;

fn main() {
    let halves: Vec<_> = (0..2)
        .map(|half| thread::spawn(move || count(half)))
        .collect();
    let sums = halves.into_iter().map(|half| half.join().unwrap_or(0));
    let text: Vec<String> = sums.map(|sum| sum.to_string()).collect();
    #[expect(clippy::print_stdout, reason = "the output is what tests compare")]
    {
        println!("{}", text.join(" "));
    }
}

fn count(half: usize) -> usize {
    let mut words: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for number in 0..5000 {
        let word = format!("word {}", number % (300 + half));
        words.entry(word).or_default().push(number);
    }
    words.iter().map(|(word, at)| word.len() * at.len()).sum()
}
