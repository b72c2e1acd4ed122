// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The device and its ports, as the kernel queries them. */

#include <linux/module.h>
#include "vib.h"

static unsigned int ports = 1;
module_param(ports, uint, 0444);
MODULE_PARM_DESC(ports, "ports of the adapter, 1 to 16");

static struct vib_device *the_device;

void vib_event(struct vib_port *port, enum ib_event_type what)
{
	struct ib_event event = {
		.device = &port->device->ib,
		.element.port_num = port->number,
		.event = what,
	};

	ib_dispatch_event(&event);
}

static int vib_query_device(struct ib_device *device,
			    struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = device->node_guid;
	attr->vendor_id = 0x1b1b;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->max_qp = 2 * device->phys_port_cnt;
	attr->max_qp_wr = 4096;
	attr->max_send_sge = 4;
	attr->max_recv_sge = 1;
	attr->max_cq = 16;
	attr->max_cqe = 65536;
	attr->max_mr = 1;
	attr->max_pd = 16;
	attr->max_ah = 65536;
	attr->max_pkeys = VIB_P_KEYS;
	return 0;
}

static int vib_query_port(struct ib_device *device, u32 number,
			  struct ib_port_attr *attr)
{
	struct vib_port *port = vib_port(device, number);
	const struct ib_port_info *info = &port->info;
	unsigned long flags;

	spin_lock_irqsave(&port->lock, flags);
	attr->state = vib_port_state(info);
	attr->phys_state = info->portphysstate_linkdown >> 4;
	attr->lid = be16_to_cpu(info->lid);
	attr->lmc = vib_lmc(info);
	attr->sm_lid = be16_to_cpu(info->sm_lid);
	attr->sm_sl = info->neighbormtu_mastersmsl & 0xf;
	attr->port_cap_flags = be32_to_cpu(info->cap_mask);
	attr->max_mtu = info->inittypereply_mtucap & 0xf;
	attr->active_mtu = info->neighbormtu_mastersmsl >> 4;
	attr->active_width = info->link_width_active;
	attr->active_speed = info->linkspeedactive_enabled >> 4;
	attr->max_vl_num = info->vlcap_inittype >> 4;
	attr->subnet_timeout = info->clientrereg_resv_subnetto & 0x1f;
	attr->bad_pkey_cntr = be16_to_cpu(info->pkey_violations);
	attr->qkey_viol_cntr = be16_to_cpu(info->qkey_violations);
	spin_unlock_irqrestore(&port->lock, flags);
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = VIB_P_KEYS;
	attr->max_msg_sz = VIB_MAD;
	return 0;
}

/* A subnet manager that starts in this machine sets a bit of its port's CapabilityMask. */
static int vib_modify_port(struct ib_device *device, u32 number, int mask,
			   struct ib_port_modify *change)
{
	struct vib_port *port = vib_port(device, number);
	unsigned long flags;
	u32 capabilities;

	spin_lock_irqsave(&port->lock, flags);
	capabilities = be32_to_cpu(port->info.cap_mask);
	capabilities |= change->set_port_cap_mask;
	capabilities &= ~change->clr_port_cap_mask;
	port->info.cap_mask = cpu_to_be32(capabilities);
	spin_unlock_irqrestore(&port->lock, flags);
	return 0;
}

static int vib_port_immutable(struct ib_device *device, u32 number,
			      struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->gid_tbl_len = 1;
	immutable->pkey_tbl_len = VIB_P_KEYS;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer vib_link_layer(struct ib_device *device, u32 number)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int vib_query_gid(struct ib_device *device, u32 number, int index,
			 union ib_gid *gid)
{
	struct vib_port *port = vib_port(device, number);

	gid->global.subnet_prefix = port->info.gid_prefix;
	gid->global.interface_id = vib_port_guid(port);
	return 0;
}

static int vib_query_pkey(struct ib_device *device, u32 number, u16 index,
			  u16 *p_key)
{
	if (index >= VIB_P_KEYS)
		return -EINVAL;
	*p_key = be16_to_cpu(vib_port(device, number)->p_keys[index]);
	return 0;
}

static const struct ib_device_ops vib_device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.query_device = vib_query_device,
	.query_port = vib_query_port,
	.modify_port = vib_modify_port,
	.get_port_immutable = vib_port_immutable,
	.get_link_layer = vib_link_layer,
	.query_gid = vib_query_gid,
	.query_pkey = vib_query_pkey,
	.process_mad = vib_process_mad,
};

static int __init vib_init(void)
{
	struct vib_device *device;
	unsigned int cables;
	int error;

	if (ports < 1 || ports > VIB_PORTS) {
		pr_err("vib: %u ports asked for, 1 to %u can be had\n", ports, VIB_PORTS);
		return -EINVAL;
	}
	vib_packet_init();
	device = ib_alloc_device(vib_device, ib);
	if (!device)
		return -ENOMEM;
	device->ib.node_type = RDMA_NODE_IB_CA;
	device->ib.node_guid = cpu_to_be64(0x0002c90000002000ULL);
	device->ib.phys_port_cnt = ports;
	device->ib.num_comp_vectors = 1;
	strscpy(device->ib.node_desc, "verbatim vib", sizeof(device->ib.node_desc));
	for (cables = 0; cables < ports; cables++) {
		struct vib_port *port = &device->ports[cables];

		port->device = device;
		port->number = cables + 1;
		spin_lock_init(&port->lock);
		INIT_LIST_HEAD(&port->out);
		init_waitqueue_head(&port->wait);
		vib_agent_init(port);
	}
	ib_set_device_ops(&device->ib, &vib_device_ops);
	ib_set_device_ops(&device->ib, &vib_verbs);
	/* No DMA device: the addresses in work requests are the kernel's own. */
	error = ib_register_device(&device->ib, "vib%d", NULL);
	if (error)
		goto no_device;
	for (cables = 0; cables < ports; cables++) {
		error = vib_cable_add(&device->ports[cables]);
		if (error)
			goto no_cable;
	}
	the_device = device;
	return 0;

no_cable:
	while (cables--)
		vib_cable_remove(&device->ports[cables]);
	ib_unregister_device(&device->ib);
no_device:
	ib_dealloc_device(&device->ib);
	return error;
}

static void __exit vib_exit(void)
{
	unsigned int number;

	for (number = 0; number < ports; number++)
		vib_cable_remove(&the_device->ports[number]);
	ib_unregister_device(&the_device->ib);
	ib_dealloc_device(&the_device->ib);
}

module_init(vib_init);
module_exit(vib_exit);
MODULE_DESCRIPTION("A native InfiniBand adapter whose cables are character devices");
MODULE_LICENSE("Dual MIT/GPL");
