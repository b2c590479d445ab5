/** An unused page must not keep its session alive, so repeated requests stop after this time. */
const restsAfterMs = 5 * 60_000;
let lastInputAt = Date.now();
for (const event of ['pointerdown', 'pointermove', 'keydown', 'scroll', 'hashchange']) {
  addEventListener(event, () => (lastInputAt = Date.now()), { capture: true, passive: true });
}

/** Whether the page is visible and was used lately. */
export const isInUse = (): boolean =>
  document.visibilityState === 'visible' && Date.now() - lastInputAt < restsAfterMs;
