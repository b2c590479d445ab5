// Exits with 0 when the process in this container is ready, and otherwise with 1 and the answer, which `docker inspect` shows.
const url = `http://127.0.0.1:${process.env.VAULT_PORT ?? 8080}/health/${process.argv[2] ?? 'ready'}`;
const failure = await fetch(url, { signal: AbortSignal.timeout(2500) }).then(
  async (answer) => (answer.ok ? undefined : `${answer.status} ${await answer.text()}`),
  (error) => `no answer: ${error.cause?.code ?? error.name}`,
);
if (failure !== undefined) process.stderr.write(`${failure}\n`);
process.exit(failure === undefined ? 0 : 1);
