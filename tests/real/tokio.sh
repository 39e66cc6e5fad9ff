# needs: cargo rustc
# A tokio program: a server and 40 clients on a pool of threads, timers, blocking work.
d=$CACHE/tokio; mkdir -p "$d/src"
cat >"$d/Cargo.toml" <<'S'
[package]
name = "tok"
version = "0.1.0"
edition = "2021"
[dependencies]
tokio = { version = "1", features = ["full"] }
[workspace]
S
cat >"$d/src/main.rs" <<'S'
use tokio::{io::{AsyncReadExt, AsyncWriteExt}, net::{TcpListener, TcpStream}, task, time};
#[tokio::main(worker_threads = 4)]
async fn main() {
    let l = TcpListener::bind("127.0.0.1:0").await.unwrap(); let at = l.local_addr().unwrap();
    tokio::spawn(async move { loop { let (mut s, _) = l.accept().await.unwrap(); tokio::spawn(async move { let mut b = [0; 256]; while let Ok(n) = s.read(&mut b).await { if n == 0 { break } b[..n].reverse(); s.write_all(&b[..n]).await.unwrap(); } }); } });
    let ts: Vec<_> = (0..40u32).map(|i| tokio::spawn(async move { let mut s = TcpStream::connect(at).await.unwrap(); let mut sum = 0u64; for j in 0..50u32 { let m = format!("{i}:{j}"); s.write_all(m.as_bytes()).await.unwrap(); let mut b = vec![0; m.len()]; s.read_exact(&mut b).await.unwrap(); sum += b.iter().map(|&c| u64::from(c)).sum::<u64>(); if j % 10 == 0 { time::sleep(time::Duration::from_millis(2)).await } } sum })).collect();
    let mut all = 0; for t in ts { all += t.await.unwrap(); } println!("{all}");
    println!("{}", task::spawn_blocking(|| (0..1_000_000u64).fold(1, |a: u64, x| a.wrapping_mul(6364136223846793005) ^ x)).await.unwrap());
    println!("{}", time::timeout(time::Duration::from_millis(20), std::future::pending::<()>()).await.is_err());
}
S
cargo build -q --release --manifest-path "$d/Cargo.toml" >&2
t "$d/target/release/tok"
