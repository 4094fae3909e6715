//! Telnet as far as a reader needs it: options are refused, doubled bytes taken back.

const ESCAPE: u8 = 255;
const DO_NOT: u8 = 254;
const DO: u8 = 253;
const WILL_NOT: u8 = 252;
const WILL: u8 = 251;
const SUB_BEGIN: u8 = 250;
const SUB_END: u8 = 240;

/// What is to be made of the next byte.
#[derive(Default)]
enum State {
    #[default]
    Data,
    /// After a carriage return, of which a zero byte is a part.
    Return,
    Command,
    /// After WILL, WON'T, DO or DON'T.
    Option(u8),
    Sub,
    SubCommand,
}

/// See the module.
#[derive(Default)]
pub(super) struct Telnet(State);

impl Telnet {
    /// The data in what came, and what is to be answered.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut data, mut answer) = (Vec::new(), Vec::new());
        for byte in bytes.iter().copied() {
            self.0 = match (&self.0, byte) {
                (State::Data | State::Return, ESCAPE) => State::Command,
                (State::Return, 0) => State::Data,
                (State::Data | State::Return, _) => {
                    data.push(byte);
                    if byte == b'\r' {
                        State::Return
                    } else {
                        State::Data
                    }
                }
                (State::Command, ESCAPE) => {
                    data.push(ESCAPE);
                    State::Data
                }
                (State::Command, WILL..=DO_NOT) => State::Option(byte),
                (State::Command, SUB_BEGIN) => State::Sub,
                (State::Command, _) => State::Data,
                (State::Option(verb), option) => {
                    // What is not done need not be refused.
                    match *verb {
                        WILL => answer.extend([ESCAPE, DO_NOT, option]),
                        DO => answer.extend([ESCAPE, WILL_NOT, option]),
                        _ => {}
                    }
                    State::Data
                }
                (State::Sub, ESCAPE) => State::SubCommand,
                (State::SubCommand, SUB_END) => State::Data,
                (State::Sub | State::SubCommand, _) => State::Sub,
            };
        }
        (data, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::Telnet;

    #[test]
    fn options_are_refused_and_bytes_taken_back_wherever_they_are_parted() {
        let came = b"a\xff\xfb\x01b\xff\xfd\x18\r\0\xff\xffc\xff\xfa\x18\x01\xff\xff\xff\xf0d\xff\xfe\x03\xff\xf1\r\n";
        for step in 1..=came.len() {
            let mut telnet = Telnet::default();
            let (mut data, mut answer) = (Vec::new(), Vec::new());
            for part in came.chunks(step) {
                let (some, more) = telnet.take(part);
                data.extend(some);
                answer.extend(more);
            }
            assert_eq!(data, b"ab\r\xffcd\r\n");
            assert_eq!(answer, b"\xff\xfe\x01\xff\xfc\x18");
        }
    }
}
