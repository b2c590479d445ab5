// Loaded into a vault by `--import`. It sets the clock of the vault ahead by an hour and a minute.
const aheadMs = 61 * 60_000;
const Real = Date;

class Later extends Real {
  constructor(...given: readonly unknown[]) {
    super(...((given.length === 0 ? [Real.now() + aheadMs] : given) as [number]));
  }
  static override now(): number {
    return Real.now() + aheadMs;
  }
}

globalThis.Date = Later as DateConstructor;
