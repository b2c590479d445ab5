export { ApplicationRests, type ApplicationRestsOptions } from './application-rests.ts';
export { createBatcher, type Batcher, type BatcherOptions } from './batcher.ts';
export { FairPlaces, type FairPlacesOptions, type WaitingForPlace } from './fair-places.ts';
export { FairQueue } from './fair-queue.ts';
export { TenantQueue } from './tenant-queue.ts';
export { TenantShares, type Holder } from './tenant-shares.ts';
export { ThreadShares, threadShares, type Following, type Turn } from './thread-shares.ts';
export { PresentTenants, presentTenants } from './present-tenants.ts';
