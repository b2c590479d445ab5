import { describe, expect, it } from 'vitest';
import { useVault } from '../world/vault.ts';

const vault = useVault({});

describe('32 synchronous runs at once', () => {
  // Three levels are tested with the sandbox alone, where runs have more time than 10 s.
  it('all succeed, though the code of each waits for other code', async () => {
    const caller = await vault.makeApplication({ permissions: ['token:use'] });
    const makeFunction = (code: string) => vault.makeFunction(code, { application: caller });
    const inner = await makeFunction('return { raw: 1 };');
    const asks = `const { raw } = await svc.reactors.react('${inner}', {}); return { raw: raw + 1 };`;
    const outer = await makeFunction(asks);
    const react = () => caller.client.request('POST', `/reactors/${outer}/react`, { body: { args: {} } });
    const answers = await Promise.all(Array.from({ length: 32 }, react));
    expect(answers.map(({ status, body }) => [status, body])).toEqual(answers.map(() => [200, { raw: 2 }]));
  }, 240_000);
});
