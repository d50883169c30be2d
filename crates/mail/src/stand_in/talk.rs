//! The SMTP dialogue of the stand-in: one connection, one command after another (RFC 5321).

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::{Office, ReceivedLetter, SmtpFault};
use crate::SmtpSecurity;

/// Longest line, and longest letter.
const LINE_BYTES_MAX: u64 = 4096;
const LETTER_BYTES_MAX: usize = 256 * 1024;

/// How a dialogue ended.
pub(super) enum Ended<S> {
    Quit,
    /// The client wants TLS on this connection.
    StartTls(S),
}

/// The letter that a client has begun.
#[derive(Default)]
struct Begun {
    from: String,
    to: Vec<String>,
    login: Option<String>,
    fault: Option<SmtpFault>,
}

/// Talks to one client.
pub(super) async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    office: &Office,
    encrypted: bool,
    greet: bool,
) -> io::Result<Ended<S>> {
    let mut stream = BufReader::new(stream);
    if greet {
        say(&mut stream, "220 stand-in ESMTP").await?;
    }
    let mut begun = Begun::default();
    loop {
        let line = line(&mut stream).await?;
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => {
                let starttls = if office.tls.is_some() && !encrypted { "250-STARTTLS\r\n" } else { "" };
                let login = if encrypted || office.security == SmtpSecurity::Plain { "250-AUTH PLAIN\r\n" } else { "" };
                say(&mut stream, &format!("250-stand-in\r\n{starttls}{login}250 8BITMIME")).await?;
            }
            "STARTTLS" if office.tls.is_some() && !encrypted => {
                say(&mut stream, "220 go ahead").await?;
                return Ok(Ended::StartTls(stream.into_inner()));
            }
            "AUTH" => {
                begun.login = rest.strip_prefix("PLAIN ").map(str::to_owned);
                say(&mut stream, "235 welcome").await?;
            }
            "MAIL" => {
                begun = Begun { from: inner(rest), login: begun.login, fault: office.next_fault(), ..Begun::default() };
                say(&mut stream, "250 ok").await?;
            }
            "RCPT" => match begun.fault {
                Some(SmtpFault::Refuse(status)) => say(&mut stream, &format!("{status} not now")).await?,
                _ => {
                    begun.to.push(inner(rest));
                    say(&mut stream, "250 ok").await?;
                }
            },
            "DATA" => {
                say(&mut stream, "354 go on").await?;
                let data = data(&mut stream).await?;
                if begun.fault == Some(SmtpFault::HangUp) {
                    return Ok(Ended::Quit);
                }
                let letter = received(&begun, &data, encrypted);
                office.letters.send_modify(|letters| letters.push(letter));
                say(&mut stream, "250 queued").await?;
            }
            "NOOP" | "RSET" => say(&mut stream, "250 ok").await?,
            "QUIT" => {
                say(&mut stream, "221 bye").await?;
                return Ok(Ended::Quit);
            }
            _ => say(&mut stream, "500 unknown command").await?,
        }
    }
}

async fn say<S: AsyncWrite + Unpin>(stream: &mut S, text: &str) -> io::Result<()> {
    stream.write_all(format!("{text}\r\n").as_bytes()).await?;
    stream.flush().await
}

/// Reads a line. Its end must be the one that SMTP asks for.
async fn line<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> io::Result<String> {
    let mut line = String::new();
    stream.take(LINE_BYTES_MAX).read_line(&mut line).await?;
    line.strip_suffix("\r\n").map(str::to_owned).ok_or_else(|| io::Error::other("a line without its end"))
}

async fn data<S: AsyncRead + Unpin>(stream: &mut BufReader<S>) -> io::Result<Vec<String>> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        let line = line(stream).await?;
        bytes += line.len();
        match line.strip_prefix('.') {
            Some("") => return Ok(lines),
            _ if bytes > LETTER_BYTES_MAX => return Err(io::Error::other("a letter without end")),
            Some(stuffed) => lines.push(stuffed.to_owned()),
            None => lines.push(line),
        }
    }
}

/// Returns what stands between `<` and `>`.
fn inner(text: &str) -> String {
    text.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(inner, _)| inner).to_owned()
}

/// Reads the quoted-printable form of a text (RFC 2045).
fn unquoted(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    for (at, piece) in text.replace("=\n", "").split('=').enumerate() {
        let byte = piece.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) if at > 0 => {
                bytes.push(byte);
                bytes.extend(&piece.as_bytes()[2..]);
            }
            _ => bytes.extend(piece.as_bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn received(begun: &Begun, data: &[String], encrypted: bool) -> ReceivedLetter {
    let end = data.iter().position(String::is_empty).unwrap_or(data.len());
    let mut headers: Vec<String> = Vec::new();
    for line in &data[..end] {
        match headers.last_mut() {
            Some(header) if line.starts_with([' ', '\t']) => header.push_str(line),
            _ => headers.push(line.clone()),
        }
    }
    let text = data.get(end + 1..).unwrap_or_default().join("\n");
    let is_quoted = headers.iter().any(|header| header == "Content-Transfer-Encoding: quoted-printable");
    ReceivedLetter {
        from: begun.from.clone(),
        to: begun.to.clone(),
        headers,
        text: if is_quoted { unquoted(&text) } else { text },
        login: begun.login.clone(),
        encrypted,
    }
}
