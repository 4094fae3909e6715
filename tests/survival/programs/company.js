// Workers of a JavaScript engine, compression in its thread pool.
const { Worker, isMainThread } = require('worker_threads');
const { deflateSync, deflate } = require('zlib');

if (isMainThread) {
  let left = 20 + 3;
  const done = () => { if (--left === 0) console.log('done'); };
  for (let at = 0; at < 20; at++) deflate(Buffer.alloc(100000, at), done);
  for (let at = 0; at < 3; at++) new Worker(__filename).on('exit', done);
} else {
  for (let at = 0; at < 20; at++) deflateSync(Buffer.alloc(10000, at));
}
