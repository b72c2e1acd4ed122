// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The subnet management agent of the adapter's own ports (architecture 14.2). The
 * subnet manager is in this machine or beyond the cable. The ports belong to the
 * tester and are not under test, so the agent stores an M_Key without checking it.
 */

#include <linux/string.h>
#include "vib.h"

#define SPEED_QDR	4
#define SPEEDS		7	/* SDR, DDR, QDR */
#define WIDTHS		3	/* 1X, 4X */
#define VLS		4	/* VL0-7 */
#define POLLING		2	/* PortPhysicalState, and LinkDownDefaultState */
#define DISABLED	3
#define LINK_UP		5
#define REREGISTER	0x80

void vib_agent_init(struct vib_port *port)
{
	int i;

	port->info = (struct ib_port_info){
		.gid_prefix = cpu_to_be64(0xfe80000000000000ULL),
		.cap_mask = cpu_to_be32(IB_PORT_SL_MAP_SUP | IB_PORT_SYS_IMAGE_GUID_SUP |
					IB_PORT_CLIENT_REG_SUP),
		.local_port_num = port->number,
		.link_width_enabled = WIDTHS,
		.link_width_supported = WIDTHS,
		.link_width_active = IB_WIDTH_4X,
		.linkspeed_portstate = SPEEDS << 4 | IB_PORT_DOWN,
		.portphysstate_linkdown = POLLING << 4 | POLLING,
		.linkspeedactive_enabled = SPEED_QDR << 4 | SPEEDS,
		.neighbormtu_mastersmsl = IB_MTU_4096 << 4,
		.vlcap_inittype = VLS << 4,
		.vl_arb_high_cap = 64,
		.vl_arb_low_cap = 64,
		.inittypereply_mtucap = IB_MTU_4096,
		.operationalvl_pei_peo_fpi_fpo = VLS << 4,
		.guid_cap = 1,
		.clientrereg_resv_subnetto = 18,
		.resv_resptimevalue = 16,
		.localphyerrors_overrunerrors = 8 << 4 | 8,
	};
	port->p_keys[0] = cpu_to_be16(0xffff);
	/* SL n maps to VL n modulo 8; each byte has two SLs. */
	for (i = 0; i < 8; i++)
		port->sl_to_vl[i] = (2 * i % 8) << 4 | (2 * i + 1) % 8;
}

void vib_link(struct ib_port_info *info, bool up)
{
	u8 state = up ? IB_PORT_INIT : IB_PORT_DOWN;
	u8 physical = up ? LINK_UP : POLLING;

	info->linkspeed_portstate = (info->linkspeed_portstate & 0xf0) | state;
	info->portphysstate_linkdown = physical << 4 | (info->portphysstate_linkdown & 0xf);
}

/* Returns a byte with two 4-bit fields after a Set. A field that is 0 in the Set is unchanged. */
static u8 halves(u8 old, u8 new)
{
	return (new & 0xf0 ? new & 0xf0 : old & 0xf0) | (new & 0xf ? new & 0xf : old & 0xf);
}

/* Sets PortState and PortPhysicalState; returns whether the request was legal. */
static bool set_state(struct vib_port *port, const struct ib_port_info *wanted)
{
	struct ib_port_info *info = &port->info;
	u8 physical = wanted->portphysstate_linkdown >> 4;
	u8 state = vib_port_state(wanted), now = vib_port_state(info);

	if (physical == DISABLED) {
		vib_link(info, false);
		info->portphysstate_linkdown |= DISABLED << 4;
		return state <= IB_PORT_DOWN;
	}
	if (physical == POLLING || (!physical && state == IB_PORT_DOWN)) {
		vib_link(info, port->cabled);
		return state <= IB_PORT_DOWN;
	}
	if (physical)
		return false;
	if (!state || state == now)
		return true;
	if ((state == IB_PORT_ARMED && now == IB_PORT_INIT) ||
	    (state == IB_PORT_ACTIVE && now == IB_PORT_ARMED)) {
		info->linkspeed_portstate = (info->linkspeed_portstate & 0xf0) | state;
		return true;
	}
	return false;
}

static bool is_unicast(__be16 lid)
{
	return lid && be16_to_cpu(lid) < 0xc000;
}

static bool set_port_info(struct vib_port *port, const struct ib_port_info *wanted)
{
	struct ib_port_info *info = &port->info;
	bool legal = true;
	u8 vls = wanted->operationalvl_pei_peo_fpi_fpo >> 4;
	u8 mtu = wanted->neighbormtu_mastersmsl >> 4;

	info->mkey = wanted->mkey;
	info->gid_prefix = wanted->gid_prefix;
	info->mkey_lease_period = wanted->mkey_lease_period;
	if (is_unicast(wanted->lid))
		info->lid = wanted->lid;
	else if (wanted->lid != info->lid)
		legal = false;
	if (is_unicast(wanted->sm_lid))
		info->sm_lid = wanted->sm_lid;
	else if (wanted->sm_lid != info->sm_lid)
		legal = false;
	if (wanted->link_width_enabled == 0xff)
		info->link_width_enabled = WIDTHS;
	else if (wanted->link_width_enabled & ~WIDTHS)
		legal = false;
	else if (wanted->link_width_enabled)
		info->link_width_enabled = wanted->link_width_enabled;
	info->mkeyprot_resv_lmc = wanted->mkeyprot_resv_lmc & 0xc7;
	info->linkspeedactive_enabled =
		halves(info->linkspeedactive_enabled, wanted->linkspeedactive_enabled & SPEEDS);
	if (!mtu || mtu > IB_MTU_4096)
		legal = false;
	else
		info->neighbormtu_mastersmsl = wanted->neighbormtu_mastersmsl;
	info->vl_high_limit = wanted->vl_high_limit;
	if (vls > VLS)
		legal = false;
	else if (vls)
		info->operationalvl_pei_peo_fpi_fpo = vls << 4;
	info->portphysstate_linkdown =
		halves(info->portphysstate_linkdown, wanted->portphysstate_linkdown & 0xf);
	if (!wanted->mkey_violations)
		info->mkey_violations = 0;
	if (!wanted->pkey_violations)
		info->pkey_violations = 0;
	if (!wanted->qkey_violations)
		info->qkey_violations = 0;
	info->clientrereg_resv_subnetto = wanted->clientrereg_resv_subnetto & 0x1f;
	info->localphyerrors_overrunerrors = wanted->localphyerrors_overrunerrors;
	return set_state(port, wanted) && legal;
}

/* Reports the changes of a PortInfo to the kernel. */
static void tell(struct vib_port *port, const struct ib_port_info *old,
		 const struct ib_port_info *now, bool reregister)
{
	u8 before = vib_port_state(old), after = vib_port_state(now);

	if (old->lid != now->lid || vib_lmc(old) != vib_lmc(now))
		vib_event(port, IB_EVENT_LID_CHANGE);
	if (old->sm_lid != now->sm_lid)
		vib_event(port, IB_EVENT_SM_CHANGE);
	if (old->gid_prefix != now->gid_prefix)
		vib_event(port, IB_EVENT_GID_CHANGE);
	if (before != after && after == IB_PORT_ACTIVE)
		vib_event(port, IB_EVENT_PORT_ACTIVE);
	if (before == IB_PORT_ACTIVE && after < IB_PORT_ARMED)
		vib_event(port, IB_EVENT_PORT_ERR);
	if (reregister)
		vib_event(port, IB_EVENT_CLIENT_REREGISTER);
}

static u16 port_info(struct vib_port *port, struct ib_smp *smp, bool is_set)
{
	struct vib_device *device = port->device;
	const struct ib_port_info *wanted = (void *)smp->data;
	u32 number = be32_to_cpu(smp->attr_mod) & 0x7fffffff;
	struct vib_port *target = port;
	struct ib_port_info old, shown;
	bool legal = true, reregister = false;
	unsigned long flags;

	if (number > device->ib.phys_port_cnt)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	if (number)
		target = &device->ports[number - 1];
	spin_lock_irqsave(&target->lock, flags);
	old = target->info;
	/* A Set of another port's PortInfo has no effect. */
	if (is_set && target == port) {
		reregister = wanted->clientrereg_resv_subnetto & REREGISTER;
		legal = set_port_info(port, wanted);
	}
	shown = target->info;
	spin_unlock_irqrestore(&target->lock, flags);
	tell(target, &old, &shown, reregister);
	shown.local_port_num = port->number;
	if (reregister)
		shown.clientrereg_resv_subnetto |= REREGISTER;
	memcpy(smp->data, &shown, sizeof(shown));
	return legal ? 0 : IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
}

static u16 node_info(struct vib_port *port, struct ib_smp *smp)
{
	struct ib_device *device = &port->device->ib;
	struct ib_node_info info = {
		.base_version = 1,
		.class_version = 1,
		.node_type = RDMA_NODE_IB_CA,
		.num_ports = device->phys_port_cnt,
		.sys_guid = device->node_guid,
		.node_guid = device->node_guid,
		.port_guid = vib_port_guid(port),
		.partition_cap = cpu_to_be16(VIB_P_KEYS),
		.local_port_num = port->number,
		.vendor_id = { 0x00, 0x1b, 0x1b },
	};

	memcpy(smp->data, &info, sizeof(info));
	return 0;
}

/* Reads a table of the port; for a Set, writes it first. */
static u16 table(struct vib_port *port, struct ib_smp *smp, bool is_set, void *of, size_t length)
{
	unsigned long flags;

	spin_lock_irqsave(&port->lock, flags);
	if (is_set)
		memcpy(of, smp->data, length);
	memset(smp->data, 0, sizeof(smp->data));
	memcpy(smp->data, of, length);
	spin_unlock_irqrestore(&port->lock, flags);
	return 0;
}

static u16 serve(struct vib_port *port, struct ib_smp *smp, bool is_set)
{
	u32 modifier = be32_to_cpu(smp->attr_mod);
	u16 status;

	switch (smp->attr_id) {
	case IB_SMP_ATTR_PORT_INFO:
		return port_info(port, smp, is_set);
	case IB_SMP_ATTR_PKEY_TABLE:
		if (modifier & 0xffff)
			break;
		status = table(port, smp, is_set, port->p_keys, sizeof(port->p_keys));
		if (is_set)
			vib_event(port, IB_EVENT_PKEY_CHANGE);
		return status;
	case IB_SMP_ATTR_SL_TO_VL_TABLE:
		return table(port, smp, is_set, port->sl_to_vl, sizeof(port->sl_to_vl));
	case IB_SMP_ATTR_VL_ARB_TABLE:
		modifier = modifier >> 16;
		if (modifier < 1 || modifier > 4)
			break;
		return table(port, smp, is_set, port->vl_arbitration[modifier - 1],
			     sizeof(port->vl_arbitration[0]));
	case IB_SMP_ATTR_NODE_INFO:
	case IB_SMP_ATTR_NODE_DESC:
	case IB_SMP_ATTR_GUID_INFO:
		if (is_set)
			return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
		if (modifier)
			break;
		memset(smp->data, 0, sizeof(smp->data));
		if (smp->attr_id == IB_SMP_ATTR_NODE_INFO)
			return node_info(port, smp);
		if (smp->attr_id == IB_SMP_ATTR_NODE_DESC)
			memcpy(smp->data, port->device->ib.node_desc, sizeof(smp->data));
		else
			*(__be64 *)smp->data = vib_port_guid(port);
		return 0;
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
	return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
}

/*
 * ib_mad calls this function for MADs that end at this port: MADs of a directed route
 * without a hop, and all MADs that arrive over the cable. If the function gives no
 * reply, ib_mad passes the MAD to the program that registered for its class, such as a
 * subnet manager.
 */
int vib_process_mad(struct ib_device *device, int flags, u32 port_num,
		    const struct ib_wc *wc, const struct ib_grh *grh,
		    const struct ib_mad *in, struct ib_mad *out,
		    size_t *out_size, u16 *out_pkey_index)
{
	const struct ib_smp *request = (const struct ib_smp *)in;
	struct ib_smp *answer = (struct ib_smp *)out;
	bool is_directed = request->mgmt_class == IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE;
	bool is_set = request->method == IB_MGMT_METHOD_SET;

	if (!is_directed && request->mgmt_class != IB_MGMT_CLASS_SUBN_LID_ROUTED)
		return IB_MAD_RESULT_SUCCESS;
	if ((!is_set && request->method != IB_MGMT_METHOD_GET) ||
	    request->attr_id == IB_SMP_ATTR_SM_INFO)
		return IB_MAD_RESULT_SUCCESS;
	memcpy(out, in, sizeof(*out));
	answer->method = IB_MGMT_METHOD_GET_RESP;
	answer->status = cpu_to_be16(serve(vib_port(device, port_num), answer, is_set));
	if (is_directed)
		answer->status |= IB_SMP_DIRECTION;
	*out_size = VIB_MAD;
	*out_pkey_index = 0;
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
