import { cardNumber, waitUntil } from '@token-vault/test-support';
import { beforeAll, beforeEach } from 'vitest';
import { makeProxyOf, nowhere } from '../world/proxies.ts';
import { useReceiver } from '../world/receivers.ts';
import { rule } from '../world/rules.ts';
import { type Caller, functionOf, useVault } from '../world/vault.ts';

interface Listed {
  readonly data: readonly { readonly id: string; readonly delivery?: { readonly state: string } }[];
}

/** Makes outer code. Gives the path of the reactor or proxy, and the path by which it is invoked. */
type MakeOuter = (code: string, application: Caller) => Promise<[path: string, invoke: string]>;

/** A vault for the tests of the file, whose code waits at `/gate` of the receiver and sends data to `/out`. */
export function useRunningCode() {
  const number = cardNumber();
  const vault = useVault();
  const { manager, makeApplication } = vault;
  const receiver = useReceiver(beforeEach);
  let owner: Caller;
  let inside: Caller;
  beforeAll(async () => {
    await vault.setTenant({ proxy_destinations: nowhere });
    owner = await makeApplication({ rules: [rule()] });
    inside = await makeApplication({ rules: [rule({ container: '/mine/' })] });
  });

  const makeReactor = (code: string, application: Caller): Promise<string> =>
    vault.makeFunction(code, { application });

  const kinds: Readonly<Record<string, MakeOuter>> = {
    async reactor(code, application) {
      const path = `/reactors/${await makeReactor(code, application)}`;
      return [path, `${path}/react`];
    },
    async proxy(code, application) {
      const invoke = await makeProxyOf(manager, application.id, functionOf(code));
      return [invoke.replace(/\/invoke$/, ''), invoke];
    },
  };

  return {
    number,
    manager,
    makeApplication,
    receiver,
    /** May use every token in plaintext. */
    get owner() {
      return owner;
    },
    /** The application of inner code. It may create tokens, and may use no others. */
    get inside() {
      return inside;
    },
    /** A reactor whose function has this body. Gives its id. */
    makeReactor,
    /** The kinds of outer code. */
    kinds,
    /** The number of requests and deliveries that hold the card. */
    sentNumbers: (): number => receiver.deliveries.filter(({ text }) => text.includes(number)).length,
    /** Waits until the code is at the gate. */
    isAtGate: (code: string) => waitUntil(() => receiver.held === 1, { what: `the ${code} at the gate` }),
    /** Waits until the delivery of the run of a reactor has one of these states. Gives the id of the run. */
    deliveryOf: async (reactorId: string, states: readonly string[]): Promise<string> => {
      const list = async () =>
        (await manager.expect<Listed>(200, 'GET', `/invocations?reactor_id=${reactorId}`)).body.data[0];
      const isThere = async () => states.includes((await list())?.delivery?.state ?? '');
      await waitUntil(isThere, { timeoutMs: 15_000, what: 'the delivery' });
      return (await list())?.id ?? '';
    },
  };
}
